import { andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { ABORT_GRACE_MS, onceAborted } from '../concurrency/stop-signals.ts'
import { answerWithin, LATE } from '../concurrency/timeout.ts'
import { DeadlineExceededError, describeError, toReadableError } from '../model/errors.ts'
import { type InFlightEvent, toGuardEvent } from '../model/in-flight-event.ts'
import { optionsOf } from '../options/routes.ts'
import { decodeAgain } from '../receive/decode-again.ts'
import { openResult, Sealer } from '../seal/sealer.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { retryDelayMs } from '../settlement/retry-rule.ts'
import type { Processing } from './processing.ts'

/** A consumer that keeps its messages in memory would ask again at once, in a hot loop. */
const SOONEST_MS = 100

type Committed = Extract<Outcome, { kind: 'processed' | 'duplicate' | 'unguarded' }>

/**
 * Calls `afterCommit` for a committed event, before its message is acknowledged. Answers the outcome of the delivery: a
 * call that failed defers it, and the redelivery is a duplicate. Never rejects.
 *
 * In a lane, call this in delivery order: behind a call that failed, the others are deferred too.
 */
export function callAfterCommit(
  processing: Processing,
  member: InFlightEvent,
  outcome: Outcome,
): MaybeAsync<Outcome> {
  const { lanes, options } = processing
  if (options.afterCommit === undefined || !isCommitted(outcome)) return outcome
  const following = lanes.followerOutcome(member)
  if (following !== undefined) return following
  return call(processing, member, outcome).then((last) => {
    lanes.note(member, last)
    return last
  })
}

function isCommitted(outcome: Outcome): outcome is Committed {
  return ['processed', 'duplicate', 'unguarded'].includes(outcome.kind)
}

async function call(
  processing: Processing,
  member: InFlightEvent,
  outcome: Committed,
): Promise<Outcome> {
  const { deadlineMs, runtime } = optionsOf(processing.options, member)
  const { drain } = processing.signals
  const limitMs = processing.signals.bounded(deadlineMs)
  const { promise: drained, resolve } = Promise.withResolvers<typeof LATE>()
  let stopGrace: (() => void) | undefined
  const unsubscribe = onceAborted(drain, () => {
    stopGrace = runtime.setTimer(() => resolve(LATE), ABORT_GRACE_MS)
  })
  try {
    const calling = callHook(processing, member, outcome)
    const answer = await answerWithin(runtime, Promise.race([calling, drained]), limitMs)
    if (answer !== LATE) return outcome
    const message = `\`afterCommit\` gave no answer within ${Math.round(limitMs)} ms. Make it faster, or raise \`deadlineMs\`.`
    return notTold(processing, { member, outcome }, new DeadlineExceededError(message))
  } catch (thrown) {
    return notTold(processing, { member, outcome }, toReadableError(thrown))
  } finally {
    unsubscribe()
    stopGrace?.()
  }
}

/** The handler may have changed its payload, so the hook gets a newly decoded one. */
async function callHook(
  { options }: Processing,
  member: InFlightEvent,
  outcome: Committed,
): Promise<void> {
  const attempt = outcome.kind === 'processed' ? outcome.attempt : 1
  const duplicate = outcome.kind === 'duplicate'
  const reading = duplicate ? member.payload : decodeAgain(options, member)
  await andThen(reading, (payload) =>
    options.afterCommit?.(outcome.result, toGuardEvent(member, attempt, payload), { duplicate }),
  )
}

interface Called {
  readonly member: InFlightEvent
  readonly outcome: Committed
}

/**
 * The outcome of a committed event whose result has not been told. The redelivery of a message without a claim would run the
 * handler again, and no broker brings a parked event again.
 */
function notTold(
  { options, signals }: Processing,
  { member, outcome }: Called,
  error: unknown,
): Outcome {
  const { delivery, id: eventId } = member.event
  if (member.parked !== undefined || outcome.kind === 'unguarded') {
    options.logger.error(
      { eventId, err: describeError(error) },
      'afterCommit failed and nothing calls it again, because no redelivery would find the event done: do by hand what it should have done',
    )
    return outcome
  }
  if (signals.drain?.aborted === true) {
    return { kind: 'abandoned', reason: 'closing', error, cause: 'after-commit-failed' }
  }
  const attempt = outcome.kind === 'processed' ? outcome.attempt : 0
  const delayMs = retryDelayMs(optionsOf(options, member), delivery.deliveryCount ?? 1, error)
  return {
    ...{ kind: 'after-commit-failed', attempt, error, cause: 'after-commit-failed' },
    delayMs: Math.max(SOONEST_MS, delayMs),
  }
}

type Done = Extract<Outcome, { kind: 'duplicate' | 'processed' }>

/**
 * The outcome of a done event whose stored result is sealed, with the result that the handler returned if somebody reads it. If
 * it cannot be opened, the delivery is deferred with the error: the event stays done, and its result stays as it is stored.
 */
export async function openedResult(
  processing: Processing,
  member: InFlightEvent,
  outcome: Done,
): Promise<Outcome> {
  const { lanes, options } = processing
  const isRead =
    processing.isResultRead === true ||
    options.afterCommit !== undefined ||
    options.callerRetries !== undefined
  const unread = { ...outcome, result: undefined }
  if (!isRead) return unread
  try {
    return {
      ...outcome,
      result: await openResult(new Sealer(options.seal, options), outcome.result),
    }
  } catch (error) {
    const last = notTold(processing, { member, outcome: unread }, error)
    lanes.note(member, last)
    return last
  }
}
