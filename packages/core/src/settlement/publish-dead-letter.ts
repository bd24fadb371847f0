import type { Delivery } from '../model/delivery.ts'
import { describeError } from '../model/errors.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { DeadLetter, DueEvent, InboxSession, Publish } from '../model/inbox.ts'
import type { Settlement } from '../model/settlement.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from './outcome.ts'

/** Maximum time until the broker confirms a dead letter, ms. The row is locked meanwhile. */
const PUBLISH_BUDGET_MS = 10_000

interface PendingDeadLetter<Ended extends Outcome = Outcome> {
  readonly delivery: Delivery
  readonly key: string | undefined
  readonly outcome: Ended
}

type Dead = Extract<Outcome, { kind: 'dead' }>

type Published = Awaited<ReturnType<GuardPort['publishDeadLetter']>>

/** Publishes dead letters to the broker's dead-letter queue, when the adapter settles or when the poller finds them. */
export interface DeadLetterPublisher {
  /** Remembers the dead letter of a settlement until the settlement is garbage-collected. */
  note(settlement: Settlement, note: PendingDeadLetter): void
  publish(
    settlement: Settlement,
    publish: Publish,
    session: InboxSession<unknown> | undefined,
  ): Promise<Published>
  register: GuardPort['registerPublisher']
  /** Publishes a parked dead letter. Without a publisher for its source, it is left to another guard. */
  publishDue(due: DueEvent, session: InboxSession<unknown>): Promise<void>
}

export function createDeadLetterPublisher(options: ResolvedOptions): DeadLetterPublisher {
  const notes = new WeakMap<Settlement, PendingDeadLetter>()
  const publishers = new Map<string, Publish>()
  const nameOf = (source: { readonly broker: string; readonly queue: string }): string =>
    JSON.stringify([source.broker, source.queue])

  return {
    note: (settlement, note) => {
      if (settlement.kind === 'dead-letter') notes.set(settlement, note)
    },
    publish: async (settlement, publish, session) => {
      const note = notes.get(settlement)
      if (note?.outcome.kind !== 'dead') return { kind: 'already' }
      const { ref } = note.outcome
      try {
        if (session !== undefined && ref !== undefined) {
          const answer = await session.publish(ref, publish, PUBLISH_BUDGET_MS)
          return answer === 'published' || answer === 'already'
            ? { kind: answer }
            : { kind: 'retry' }
        }
        await publish(unrecorded(options, { ...note, outcome: note.outcome }))
        return { kind: 'published' }
      } catch (error) {
        options.logger.error(
          { err: describeError(error) },
          'a dead letter could not be published and is retried: check the dead-letter queue',
        )
        return { kind: 'retry', error }
      }
    },
    register: (source, publish) => {
      const name = nameOf(source)
      publishers.set(name, publish)
      return () => {
        if (publishers.get(name) === publish) publishers.delete(name)
      }
    },
    publishDue: async (due, session) => {
      const publish = publishers.get(nameOf(due.delivery.source))
      if (publish !== undefined) await session.publish(due.ref, publish, PUBLISH_BUDGET_MS)
    },
  }
}

/** Without an inbox the broker's dead-letter queue is the only record. */
function unrecorded(options: ResolvedOptions, note: PendingDeadLetter<Dead>): DeadLetter {
  const { delivery, key, outcome } = note
  const now = new Date(options.runtime.now())
  const error = outcome.error === undefined ? undefined : describeError(outcome.error).message
  return {
    ref: outcome.ref ?? { kind: 'refused', id: options.runtime.uuid() },
    consumer: options.consumer,
    key,
    reason: outcome.reason,
    error,
    attempts: outcome.attempt,
    firstFailedAt: now,
    lastFailedAt: now,
    delivery,
  }
}
