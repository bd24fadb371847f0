import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { answerWithin, LATE } from '../concurrency/timeout.ts'
import { unrecordedConflict } from '../lease/claim.ts'
import { describeError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import { copyOutcome, type Outcome } from '../settlement/outcome.ts'
import { conflictOutcome } from '../transaction/stored-state.ts'
import { factsOf, type Processing, storeFailure } from './processing.ts'
import type { Received } from './receive.ts'

/** Gives the copies of an event their outcomes, based on the outcome of the leader. */
export async function concludeCopies(
  processing: Processing,
  { copies }: Received,
  outcome: Outcome,
): Promise<void> {
  for (const member of copies) {
    processing.observe(member.index, await copyEnd(processing, member, outcome), factsOf(member))
  }
}

async function copyEnd(
  processing: Processing,
  member: InFlightEvent,
  outcome: Outcome,
): Promise<Outcome> {
  if (leaderConflicts(outcome)) return conflictOf(processing, member)
  if (outcome.kind !== 'processed' && outcome.kind !== 'duplicate') return copyOutcome(outcome)
  await tellDuplicate(processing, member, outcome.result)
  return { kind: 'duplicate', result: outcome.result }
}

/** Each message that is refused for its payload is judged, and recorded, for itself. */
function leaderConflicts(outcome: Outcome): boolean {
  if (outcome.kind === 'dead') return outcome.reason === 'fingerprint-mismatch'
  return outcome.kind === 'conflict'
}

async function conflictOf(processing: Processing, member: InFlightEvent): Promise<Outcome> {
  const { engine } = processing.stores
  try {
    return await (engine === undefined
      ? unrecordedConflict(processing.options)
      : conflictOutcome(engine, member))
  } catch (error) {
    return storeFailure(processing, error)
  }
}

/** Hands the stored result of a duplicate to the user. Parked events are not reported: no broker delivered them. */
export function tellDuplicate(
  { options, signals }: Processing,
  member: InFlightEvent,
  result: unknown,
): MaybeAsync<void> {
  const { logger, onDuplicate, runtime } = options
  if (onDuplicate === undefined || member.parked !== undefined) return undefined
  const deadlineMs = signals.bounded(options.deadlineMs)
  const { id: eventId } = member.event
  const call = async (): Promise<void> => onDuplicate(toGuardEvent(member, 1), result)
  return answerWithin(runtime, call(), deadlineMs).then(
    (answer) => {
      if (answer !== LATE) return
      logger.error(
        { eventId, deadlineMs },
        'onDuplicate gave no answer within deadlineMs and the duplicate is acked: fix the hook',
      )
    },
    (error: unknown) => {
      logger.error(
        { eventId, err: describeError(error) },
        'onDuplicate threw and the duplicate is acked: fix the hook',
      )
    },
  )
}
