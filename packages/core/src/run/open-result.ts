import type { InFlightEvent } from '../model/in-flight-event.ts'
import { openResult, Sealer } from '../seal/sealer.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { notTold } from './after-commit.ts'
import type { Processing } from './processing.ts'

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
