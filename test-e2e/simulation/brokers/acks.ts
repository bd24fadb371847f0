import type { DeadLetter, DeadLetterRef, EventId } from '@onceward/core/ports'
import type { Plan } from '../faults/plan.ts'
import { type Case, payloadOf } from '../judge/cases.ts'
import type { Database, History } from '../stores/database.ts'
import type { Life } from '../world/process.ts'
import type { Message } from './broker.ts'

/** A process that was frozen goes on with what it knew; from the thaw to its settlement it takes no longer, ms. */
const AFTER_THAW_MS = 300

/** Who settled, and when it had made up its mind, ms of virtual time. */
export interface Decision {
  readonly life: Life
  readonly atMs: number
}

/** The ledger that acks are judged by. */
interface Ledger {
  readonly cases: ReadonlyMap<EventId, Case>
  readonly database: Database | undefined
  readonly failovers: number
  readonly nowMs: number
  byKey(key: string): Case
  violate(what: string): void
}

/** The broker may forget a message when its effect is committed, or it has a durable dead letter. */
export class Acks {
  readonly #plan: Plan
  readonly #ledger: Ledger

  constructor(plan: Plan, ledger: Ledger) {
    this.#plan = plan
    this.#ledger = ledger
  }

  /** The dead-letter place has it, whatever becomes of its record. */
  deadLettered({ delivery, lastFailedAt, ref }: DeadLetter): void {
    const number = Number(wholeOf(delivery.source.position))
    const message = this.#plan.messages[number]
    const key = this.#plan.events[message?.event ?? -1]?.key
    if (message === undefined || key === undefined) throw new Error('A letter of no message.')
    const one = this.#ledger.byKey(key)
    const isRecorded = ref.kind === 'event' && this.#plan.composition !== 'leases'
    if (isRecorded) this.#lettered(one, lastFailedAt)
    const letter = isRecorded ? payloadOf({ key, plan: message }) : nameOf({ number })
    if (!one.letters.includes(letter)) one.letters = [...one.letters, letter]
  }

  /** Somebody has taken the right to publish for so long, or has ended it. */
  publishing(ref: DeadLetterRef, forMs: number): void {
    if (ref.kind !== 'event') return
    const one = this.#ledger.cases.get(ref.id)
    if (one !== undefined) one.publishedUntilMs = this.#ledger.nowMs + forMs
  }

  /** While a right to publish runs, the event stays dead. A call that outlasts its right may come late. */
  #lettered(one: Case, lastFailedAt: Date): void {
    one.lettersOf.add(lastFailedAt.getTime())
    if (this.#ledger.failovers > 0 || this.#ledger.nowMs >= one.publishedUntilMs) return
    const state = this.#database.history.store.tables.rows.get(one.id)?.state
    if (state !== 'dead')
      this.#ledger.violate(`${one.key} was published as dead while it is ${state}`)
  }

  /** A failover has lost commits: those that heard of them may still act on it until the survivor is up. */
  failedOver(lost: History, { history, upAtMs }: Database): void {
    for (const one of this.#ledger.cases.values()) {
      const kept = history.of(one.id).effects
      for (const payload of lost.of(one.id).effects) {
        if (!kept.includes(payload)) one.lostUntilMs = { ...one.lostUntilMs, [payload]: upAtMs }
      }
    }
  }

  /** Of an ack that says that the effect is committed. */
  replied(message: Message, by: string): void {
    if (this.#plan.replies !== true || !['processed', 'duplicate'].includes(by)) return
    const { isReplied, key } = this.#ledger.byKey(message.key)
    if (!isReplied && !this.isDead(key)) this.#ledger.violate(`${key} was acked without its reply`)
  }

  /** A dead event of a message that was split, which counts as processed. */
  isDead(key: string): boolean {
    if (this.#plan.splits !== true) return false
    const one = this.#ledger.byKey(key)
    return one.letters.length > 0 || one.isReplayed
  }

  acked(message: Message, decision: Decision, isDone: (id: EventId) => boolean): void {
    const one = this.#ledger.byKey(message.key)
    if (this.#plan.composition === 'leases') {
      if (one.letters.includes(nameOf(message))) return
      if (message.plan.variant === 'garbage' || !isDone(one.id)) {
        this.#ledger.violate(`${one.key} was acked without being done`)
      }
      return
    }
    if (this.#isRecorded(one, message) || this.#isPublished(one, message)) return
    if (wasCommitted(one, message, decision)) return
    this.#ledger.violate(`${one.key} was acked without a commit`)
  }

  /** By the tables as they are. */
  #isRecorded(one: Case, message: Message): boolean {
    const { history } = this.#database
    const { refused, tables } = history.store
    const isRefused = [...refused.values()].some(
      ({ letter, published }) =>
        published && wholeOf(letter.delivery.source.position) === positionOf(message),
    )
    if (isRefused) return true
    if (message.plan.variant === 'garbage') return false
    if (tables.rows.get(one.id)?.state === 'dead') {
      return tables.troubles.get(one.id)?.published === true
    }
    return history.of(one.id).effects.includes(payloadOf(message))
  }

  /** The dead-letter place has it, though an operator has put its record back, or a failover has lost it. */
  #isPublished(one: Case, message: Message): boolean {
    if (this.#ledger.failovers === 0 && !one.isReplayed) return false
    return one.letters.includes(payloadOf(message)) || one.letters.includes(nameOf(message))
  }

  get #database(): Database {
    if (this.#ledger.database === undefined) throw new Error('The audit has no database yet.')
    return this.#ledger.database
  }
}

/** As durable as the commit: whoever heard of it before a failover lost it may say so, but nobody later. */
function wasCommitted(one: Case, message: Message, { atMs, life }: Decision): boolean {
  const untilMs = one.lostUntilMs[payloadOf(message)]
  return untilMs !== undefined && atMs <= Math.max(untilMs, life.frozenUntilMs + AFTER_THAW_MS)
}

/** The position of the message that an event was split from. */
const wholeOf = (position = ''): string => position.replace(/#.*/, '')

const positionOf = ({ number }: Pick<Message, 'number'>): string => String(number)

const nameOf = (message: Pick<Message, 'number'>): string => `#${positionOf(message)}`
