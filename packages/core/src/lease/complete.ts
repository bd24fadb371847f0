import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Held, HeldAnswer } from '../model/lease-store.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { Leases } from './claim.ts'
import { restOfWindowMs } from './rest-of-window.ts'

/**
 * Step 4, always after the commit: stores the outcome in the lease store. With an inbox, a store that does not answer costs
 * only latency: the lease expires, and the redelivery finds the row and updates the store.
 */
export async function completeLease(
  context: Leases,
  member: InFlightEvent,
  outcome: Outcome,
): Promise<void> {
  const { lease } = member
  if (lease === undefined) return
  try {
    const held = { id: member.event.id, ownerToken: lease.ownerToken }
    if (!isStored(context, outcome) && !mustRunOut(member, outcome))
      await tellStore(context, held, outcome)
  } catch {
    // The lease expires. The next owner then finds the stored outcome or takes the event over.
  } finally {
    context.renewer.stopRenewing(member)
  }
}

/** Without an inbox, the result is stored before the outcome is known. */
function isStored({ options }: Leases, { kind }: Outcome): boolean {
  return options.inbox === undefined && kind === 'processed'
}

/**
 * A handler that is still running keeps its lease, so that the next owner waits until the lease expires. An undecided
 * takeover keeps its lease too: after `fail` the next claim would be a retry, which does not call `onTakeover`, and after
 * `release` this attempt would not be counted.
 */
function mustRunOut({ isUndecided }: InFlightEvent, outcome: Outcome): boolean {
  if (outcome.kind === 'abandoned' && outcome.stillRunning === true) return true
  return isUndecided === true && outcome.kind !== 'processed' && outcome.kind !== 'dead'
}

function tellStore(
  { options, store }: Leases,
  held: Held,
  outcome: Outcome,
): Promise<readonly HeldAnswer[]> {
  switch (outcome.kind) {
    case 'processed':
      return store.complete([{ ...held, result: outcome.result }], options.dedupWindowMs)
    case 'duplicate':
      return store.complete([{ ...held, result: outcome.result }], restOfWindowMs(options, outcome))
    case 'failed':
      return options.callerRetries === undefined
        ? store.fail([{ ...held, delayMs: outcome.delayMs }])
        : store.release([held])
    case 'dead':
      // A refused message never changes the state of the event that has the same key.
      return outcome.ref?.kind === 'refused'
        ? store.release([held])
        : store.bury([{ ...held, reason: outcome.reason }], options.dedupWindowMs)
    case 'parked':
    case 'skipped':
    case 'unguarded':
    case 'in-progress':
    case 'not-due':
    case 'deferred':
    case 'conflict':
    case 'not-stored':
    case 'after-commit-failed':
    case 'store-down':
    case 'abandoned':
      return store.release([held])
  }
}
