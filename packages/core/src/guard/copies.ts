import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { answerWithin, LATE } from '../concurrency/timeout.ts'
import { unrecordedConflict } from '../lease/claim.ts'
import { describeError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import { isConflict } from '../model/state-machine.ts'
import { copyOutcome, type Outcome, stopsLane } from '../settlement/outcome.ts'
import { conflictOutcome } from '../transaction/stored-state.ts'
import { factsOf, type Processing, storeFailure } from './processing.ts'
import type { DeliveryGroup, Received } from './receive.ts'

/**
 * Gives the copies of an event their outcomes, based on the outcome of the leader. Returns the copies that must still
 * run.
 */
export function concludeCopies(
  processing: Processing,
  group: DeliveryGroup,
  outcome: Outcome,
): MaybeAsync<readonly DeliveryGroup[]> {
  if (group.copies.length === 0) return []
  return leaderConflicts(outcome)
    ? leadByNext(group)
    : concludeEach(processing, group, outcome).then(() => [])
}

/** A leader that was refused for its own payload says nothing about the event. */
function leaderConflicts(outcome: Outcome): boolean {
  if (outcome.kind !== 'dead') return outcome.kind === 'conflict'
  // Without an inbox a refusal has no record.
  return outcome.reason === 'fingerprint-mismatch' || outcome.ref?.kind === 'refused'
}

/** The remaining copies stay one group. Run side by side, the second copy would not see that the first is in flight. */
function leadByNext({ copies: [next, ...copies] }: DeliveryGroup): readonly DeliveryGroup[] {
  return next === undefined ? [] : [{ ...next, copies }]
}

async function concludeEach(
  processing: Processing,
  { copies, member: leader }: DeliveryGroup,
  outcome: Outcome,
): Promise<void> {
  for (const copy of copies) {
    const facts = factsOf(copy.member)
    processing.observe(copy.index, await copyEnd(processing, { copy, leader, outcome }), facts)
  }
}

interface Copy {
  readonly copy: Received
  readonly leader: InFlightEvent
  readonly outcome: Outcome
}

async function copyEnd(
  processing: Processing,
  { copy: { member }, leader, outcome }: Copy,
): Promise<Outcome> {
  if (!stopsLane(outcome) && isConflict(leader.event.fingerprint, member.event.fingerprint)) {
    return conflictOf(processing, member)
  }
  if (outcome.kind !== 'processed' && outcome.kind !== 'duplicate') return copyOutcome(outcome)
  await tellDuplicate(processing, member, outcome.result)
  return { kind: 'duplicate', result: outcome.result }
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
