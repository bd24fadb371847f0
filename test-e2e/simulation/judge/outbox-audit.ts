import type { Confirmation } from '@onceward/core'
import type { CollectedMessage, EventId } from '@onceward/core/ports'
import type { OutboxPlan } from '../faults/plan.ts'
import { isBehind, type OutboxRow, type OutboxRows } from '../stores/outbox-rows.ts'

/** What the handler of an event sends. The text is the same for each run, and for no other message. */
export function sendsOf({ sends }: OutboxPlan, index: number, key: string) {
  const all = [
    { to: SINK, key: `k${index % 2}`, payload: `${key}:1` },
    { to: SINK, key: 'k0', payload: `${key}:2` },
    { to: SINK, payload: `${key}:3`, delayMs: index % 2 === 0 ? 0 : 1_000 },
  ]
  return all.slice(0, sends[index % sends.length])
}

export const SINK = 'sink'

/** Looks in which a message fails alone before its attempt is counted. */
const LOOKS = 5

export const textOf = ({ payload }: Pick<CollectedMessage, 'payload'>): string =>
  JSON.parse(Buffer.from(payload).toString()) as string

type Identified = Pick<CollectedMessage, 'id' | 'payload'>

/** Judges the outbox: what commits send, and what arrives at the destination. */
export class OutboxAudit {
  readonly #violate: (why: string) => void
  readonly #ids = new Map<string, string>()
  readonly #texts = new Map<string, string>()
  readonly #arrived = new Set<string>()
  readonly #effects = new Map<string, number>()
  readonly #refusals = new Map<string, number>()
  #calls = 0
  /** The last call of each relay that was confirmed. */
  readonly #confirmed = new Map<string, number>()
  readonly #failures: { readonly relay: string; readonly call: number; readonly id: string }[] = []
  readonly #decided = new Set<string>()

  constructor(violate: (why: string) => void) {
    this.#violate = violate
  }

  /** `expected`: what each event of the commit sends, in order. */
  committed(
    sends: readonly CollectedMessage[],
    expected: ReadonlyMap<EventId, readonly string[]>,
  ): void {
    for (const { event } of sends) {
      if (!expected.has(event as EventId)) this.#violate('a message of a run without a commit')
    }
    for (const [id, texts] of expected) {
      const of = sends.filter(({ event }) => event === id).map(textOf)
      if (of.join() !== texts.join())
        this.#violate(`committed ${texts.join()} with the messages ${of.join()}`)
    }
    for (const message of sends) this.#identified(message)
  }

  /** The same thing has the same id in every run, and no other thing has it. */
  #identified(message: Identified): void {
    const { id } = message
    const text = textOf(message)
    if ((this.#ids.get(text) ?? id) !== id) this.#violate(`${text} was sent with another id`)
    if ((this.#texts.get(id) ?? text) !== text) this.#violate(`${text} has the id of another`)
    this.#ids.set(text, id)
    this.#texts.set(id, text)
  }

  /** It arrives at the destination. `rows`: what waits in the history of now. */
  published(message: Identified & { readonly position: string }, { rows }: OutboxRows): void {
    const { id, position } = message
    const text = textOf(message)
    if (this.#texts.get(id) !== text) this.#violate(`${text} was published without a commit`)
    const row = rows.get(Number(position))
    if (!this.#arrived.has(id) && row?.message.id === id && row.message.delayMs === 0) {
      for (const other of rows.values())
        if (this.#isOvertaken(other, row)) this.#overtook(text, other)
    }
    // The guard behind: it drops what has an id that it knows.
    if (!this.#arrived.has(id)) this.#effects.set(text, (this.#effects.get(text) ?? 0) + 1)
    if ((this.#effects.get(text) ?? 0) > 1) this.#violate(`two effects of ${text} behind a guard`)
    this.#arrived.add(id)
  }

  #isOvertaken(other: OutboxRow, row: OutboxRow): boolean {
    if (!isBehind(row, other) || other.message.delayMs > 0 || other.state === 'x') return false
    return !this.#arrived.has(other.message.id)
  }

  #overtook(text: string, { message }: OutboxRow): void {
    this.#violate(`${text} overtook ${textOf(message)}`)
  }

  refused({ id }: Pick<CollectedMessage, 'id'>): void {
    this.#refusals.set(id, (this.#refusals.get(id) ?? 0) + 1)
  }

  /** A call of a relay begins. The answer tells what the relay hears of it, a rejection as `down` for each message. */
  calls(
    relay: string,
    some: readonly Pick<CollectedMessage, 'id'>[],
  ): (answers: readonly Confirmation[]) => void {
    this.#calls += 1
    const call = this.#calls
    return (answers) => {
      for (const [index, answer] of answers.entries()) {
        const id = some[index]?.id ?? ''
        if (answer === undefined) this.#confirmed.set(relay, call)
        else {
          this.refused({ id })
          if (answer.refused === undefined) this.#failures.push({ relay, call, id })
          else this.#decided.add(id)
        }
      }
    }
  }

  /**
   * An attempt is counted, the first of its message. The destination must have decided against it, or taken another one
   * later, or this one must have failed in some looks.
   */
  counted(relay: string, { attempt, id }: { readonly attempt: number; readonly id: string }): void {
    if (attempt > 0 || this.#decided.has(id)) return
    const failures = this.#failures.filter((one) => one.relay === relay && one.id === id)
    const last = failures.at(-1)
    // The relay has given up the call, and has not heard of it.
    if (last === undefined) return
    const hasTakenLater = (this.#confirmed.get(relay) ?? 0) > last.call
    if (!hasTakenLater && failures.length < LOOKS)
      this.#violate(`${this.#texts.get(id)} is counted while everything fails`)
  }

  removed(rows: readonly OutboxRow[]): void {
    for (const { message } of rows)
      if (!this.#arrived.has(message.id))
        this.#violate(`${textOf(message)} was deleted unpublished`)
  }

  died({ message }: OutboxRow, attempts: number): void {
    const refusals = this.#refusals.get(message.id) ?? 0
    if (refusals < attempts) this.#violate(`${textOf(message)} is dead after ${refusals} refusals`)
  }

  /** Nothing more happens: what is committed has arrived, or is a dead letter. */
  ended({ rows, sent }: OutboxRows): void {
    const dead = new Set([...rows.values()].map(({ message }) => message.id))
    for (const id of sent) {
      if (!this.#arrived.has(id) && !dead.has(id)) this.#violate(`${this.#texts.get(id)} is lost`)
    }
  }
}
