import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import {
  type Delivery,
  FatalError,
  type Guard,
  type GuardEvent,
  type Logger,
  type OutcomeRecord,
  type Settlement,
} from '@onceward/core'
import type { DeadLetter } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { diceOf } from '../../support/dice.ts'
import { SECRET } from './bodies.ts'
import { wrongEnvelopes } from './envelopes.ts'
import { readingOf } from './expected.ts'
import type { History, Told } from './history.ts'
import { PARSES, TURN_MS } from './judge.ts'
import { deliveryOf, messageOf } from './messages.ts'
import type { Case, Plan } from './plan.ts'
import type { Setup } from './setups.ts'
import { bareParseMs, longestTurn } from './turns.ts'

const REPLAY_MS = 30_000

/** A message in hand, with what is noted of it. */
interface Sent {
  readonly one: Case
  readonly delivery: Delivery
  /** The bytes of the body, which nothing may change. */
  readonly body: Buffer
  readonly settled: string[]
  readonly changed: string[]
  turnMs: number
  parseMs: number
}

/** Sends the messages of a plan through every setup, and replays what became a dead letter. */
export async function play(plan: Plan, setups: readonly Setup[]): Promise<History> {
  const crashes: string[] = []
  const note = (error: unknown): void => void crashes.push(`unhandled: ${String(error)}`)
  process.on('unhandledRejection', note)
  try {
    const histories: History[] = []
    for (const setup of setups) histories.push(await new Round(plan, setup).played())
    return {
      told: histories.flatMap(({ told }) => told),
      leaks: histories.flatMap(({ leaks }) => leaks),
      crashes: [...crashes, ...histories.flatMap((history) => history.crashes)],
    }
  } finally {
    process.off('unhandledRejection', note)
  }
}

class Round {
  readonly #plan: Plan
  readonly #setup: Setup
  readonly #consumer = `fuzz-${randomUUID()}`
  readonly #sent: readonly Sent[]
  readonly #records: OutcomeRecord[] = []
  readonly #leaks: string[] = []
  readonly #crashes: string[] = []
  #isMended = false

  constructor(plan: Plan, setup: Setup) {
    this.#plan = plan
    this.#setup = setup
    this.#sent = plan.cases.map((one) => {
      const delivery = deliveryOf(one)
      const body = Buffer.from(delivery.body)
      return { one, delivery, body, settled: [], changed: [], turnMs: 0, parseMs: 0 }
    })
  }

  async played(): Promise<History> {
    const observe = (record: OutcomeRecord): void => void this.#records.push(record)
    const guard = this.#guard(this.#consumer, observe)
    try {
      for (const sent of this.#sent) await this.#first(guard, sent)
      for (const { settled, delivery } of this.#sent) settled.push(await this.#end(guard, delivery))
      const together = await guard.processBatch(this.#sent.map(({ delivery }) => delivery))
      for (const [index, { settled }] of this.#sent.entries())
        settled.push(nameOf(together[index] as Settlement))
      const letters = await this.#setup.letters(this.#consumer)
      const replayed = await this.#replayed(letters)
      return await this.#history(letters, replayed)
    } catch (error) {
      const crash = error instanceof Error ? (error.stack ?? error.message) : String(error)
      return { told: [], leaks: this.#leaks, crashes: [...this.#crashes, crash] }
    } finally {
      await guard.close()
    }
  }

  #guard(consumer: string, observe: (record: OutcomeRecord) => void): Guard {
    const handle = (event: GuardEvent<unknown>): void => this.#handle(event)
    return this.#setup.guard({ consumer, logger: this.#logger(), observe, handle })
  }

  /** The first time, with its longest turn. A long turn is tried again, because garbage collection is not the message's. */
  async #first(guard: Guard, sent: Sent): Promise<void> {
    const { body, delivery, settled } = sent
    sent.parseMs = bareParseMs(body)
    const { answer, turnMs } = await longestTurn(() => this.#end(guard, delivery))
    settled.push(answer)
    sent.turnMs = turnMs
    for (let time = 0; time < 3 && sent.turnMs > TURN_MS + PARSES * sent.parseMs; time += 1) {
      const other = this.#guard(`fuzz-${randomUUID()}`, () => undefined)
      sent.parseMs = Math.max(sent.parseMs, bareParseMs(body))
      const again = await longestTurn(() => other.process(delivery))
      sent.turnMs = Math.min(sent.turnMs, again.turnMs)
      await other.close()
    }
  }

  async #end(guard: Guard, delivery: Delivery): Promise<string> {
    try {
      return nameOf(await guard.process(delivery))
    } catch (error) {
      this.#crashes.push(`process rejected: ${String(error)}`)
      return 'rejected'
    }
  }

  #handle(event: GuardEvent<unknown>): void {
    const sent = this.#sent.find(({ one }) => one.name === event.source.queue)
    if (sent === undefined) return void this.#crashes.push(`a run of ${event.source.queue}`)
    const { one, body, delivery } = sent
    sent.changed.push(...differences(one, { body, delivery }, event))
    if (one.handler === 'fatal' && !this.#isMended) throw new FatalError('not mended yet')
  }

  /** Replays every dead letter once; how each ended, by its queue. */
  async #replayed(letters: readonly DeadLetter[]): Promise<ReadonlyMap<string, string>> {
    this.#isMended = true
    const from = this.#records.length
    const parked: DeadLetter[] = []
    for (const letter of letters) if (await this.#setup.replay(letter.ref)) parked.push(letter)
    const ended = async (): Promise<ReadonlyMap<string, string>> => {
      // On a busy machine a replay may wait longer for the runs beside it than an event may wait to run alone.
      const runs = this.#records
        .slice(from)
        .filter(({ parked, settlement }) => parked === true && settlement.kind !== 'defer')
      const now = await this.#setup.letters(this.#consumer)
      return new Map([
        ...parked.flatMap((letter) => refusedAgain(letter, now)),
        ...runs.map(({ source, settlement }) => [source.queue, nameOf(settlement)] as const),
      ])
    }
    const isOver = async (): Promise<boolean> => {
      const queues = await ended()
      return parked.every(({ delivery }) => queues.has(delivery.source.queue))
    }
    // What has not ended by then is what the judge looks for.
    await until(isOver, { deadlineMs: REPLAY_MS, everyMs: 20 }).catch(() => undefined)
    return ended()
  }

  async #history(
    letters: readonly DeadLetter[],
    replayed: ReadonlyMap<string, string>,
  ): Promise<History> {
    const effects = await this.#setup.effects(this.#consumer)
    const kept = await this.#setup.letters(this.#consumer)
    const letterOf = (from: readonly DeadLetter[], { name }: Case): DeadLetter | undefined =>
      from.find(({ delivery: { source } }) => source.queue === name)
    const told = this.#sent.map((sent): Told => {
      const { one, delivery, body, settled, changed, turnMs, parseMs } = sent
      const first = letterOf(letters, one)
      const stored = [first, letterOf(kept, one)].flatMap((letter) =>
        letter === undefined ? [] : differences(one, { body, delivery }, letter.delivery),
      )
      const records = this.#records.filter(({ source }) => source.queue === one.name)
      return {
        ...{ one, settled, changed, turnMs, parseMs },
        setup: this.#setup.name,
        reading: readingOf(delivery),
        ids: [...new Set(records.flatMap(({ eventId }) => eventId ?? []))],
        stored: first === undefined ? undefined : stored,
        replayed: replayed.get(one.name),
        effects: effects.get(one.name) ?? 0,
        envelope: wrongEnvelopes(delivery.envelope, diceOf(this.#plan.seed)),
      }
    })
    return { told, leaks: this.#leaks, crashes: this.#crashes }
  }

  /** Every level, so that a user who logs all of it logs no secret. */
  #logger(): Logger {
    const log = (fields: object, message: string): void => {
      const line = `${message} ${JSON.stringify(fields)}`
      if (line.includes(SECRET)) this.#leaks.push(line.slice(0, 500))
    }
    return { debug: log, info: log, warn: log, error: log }
  }
}

/** A message that is refused again has no run that could be reported, but a later failure in its record. */
function refusedAgain(
  { ref, lastFailedAt, delivery }: DeadLetter,
  now: readonly DeadLetter[],
): readonly (readonly [string, string])[] {
  const letter = now.find((each) => each.ref.kind === 'refused' && each.ref.id === ref.id)
  const isLater = letter !== undefined && letter.lastFailedAt > lastFailedAt
  return isLater ? [[delivery.source.queue, `dead-letter ${letter.reason}`]] : []
}

function nameOf(settlement: Settlement): string {
  const why = settlement.kind === 'ack' ? settlement.by : settlement.reason
  return `${settlement.kind} ${why}`
}

/** How a delivery differs from the one that the broker gave. */
function differences(
  one: Case,
  given: { readonly body: Buffer; readonly delivery: Delivery },
  now: Delivery,
): readonly string[] {
  const { body, delivery } = given
  const texts = ({ headers, contentType, messageId, orderingKey, producedAt }: Delivery) => ({
    ...{ headers: { ...headers }, contentType, messageId, orderingKey },
    producedAt: producedAt?.getTime(),
  })
  const checks = {
    body: body.equals(now.body),
    'texts of the delivery': isDeepStrictEqual(texts(now), texts(delivery)),
    "the client's message": isDeepStrictEqual(messageOf(one, now), messageOf(one, delivery)),
  }
  return Object.entries(checks).flatMap(([what, isSame]) => (isSame ? [] : [`another ${what}`]))
}
