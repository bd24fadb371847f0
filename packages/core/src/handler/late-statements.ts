import { endsWithin } from '../concurrency/timeout.ts'
import { describeError, RetryableError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Burial } from '../model/inbox.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'

/** An event that is done. */
export interface DoneEvent {
  readonly member: Pick<InFlightEvent, 'event'>
  readonly attempt: number
}

type Options = Pick<ResolvedOptions, 'consumer' | 'logger' | 'runtime'>

/** The refusal of the statement waits for the store so long, ms. */
const STORE_MS = 5_000

const LATE =
  'a statement came after the handler had returned, so the event is done without it: await every call in the handler, and look at the event with `npx onceward explain --id`'
const NOT_STORED =
  'an event that is done without a statement of its handler could not be stored for an operator: note its id'

/** Tells of events that are done without a statement of their handler: it was sent after the handler had returned. */
export class LateStatements {
  /** Such events of this process. Those that share a transaction are counted together, because each may be the one. */
  events = 0
  readonly #options: Options
  readonly #store: (events: readonly Burial[]) => Promise<unknown>

  /** @param store - Stores them for an operator. */
  constructor(options: Options, store: (events: readonly Burial[]) => Promise<unknown>) {
    this.#options = options
    this.#store = store
  }

  /** Reports the first late statement of a transaction. Never rejects. */
  reporterOf(done: () => readonly DoneEvent[]): (statement: string) => Promise<void> {
    let reported: Promise<void> | undefined
    return (statement) => {
      reported ??= this.#report(done(), statement)
      return reported
    }
  }

  async #report(done: readonly DoneEvent[], statement: string): Promise<void> {
    const { consumer, logger, runtime } = this.#options
    const [eventId, ...others] = done.map(({ member }) => member.event.id)
    this.events += Math.max(1, done.length)
    const named = others.length === 0 ? { eventId } : { eventIds: [eventId, ...others] }
    logger.error({ consumer, ...named, statement }, LATE)
    if (done.length === 0) return
    const which =
      others.length === 0 ? 'The event' : `One of the ${done.length} events of its transaction`
    const error = new RetryableError(
      `A statement came after the handler had returned: ${statement}. ${which} is done without it.`,
    )
    const reason = 'late-statement'
    const stored = done.map(({ attempt, member }) => ({
      event: member.event,
      attempt,
      reason,
      error,
    })) satisfies readonly Burial[]
    const storing = this.#store(stored).catch((failure: unknown) => {
      logger.error({ consumer, ...named, err: describeError(failure) }, NOT_STORED)
    })
    await endsWithin(runtime, storing, STORE_MS)
  }
}
