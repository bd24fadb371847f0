import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Held, HeldAnswer } from '../model/lease-store.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { Leases } from './claim.ts'

/**
 * Step 4, after the commit and never before: tells the lease store how it ended. With an inbox a store that does
 * not answer costs latency only: the lease runs out, and the redelivery finds the row and heals the store.
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
    if (!mustRunOut(member, outcome)) await tellStore(context, held, outcome)
  } catch {
    // The lease runs out by itself; whoever claims the event then finds how it ended, or takes it over.
  } finally {
    context.renewer.stopRenewing(member)
  }
}

/**
 * A handler that did not end keeps its lease: a successor must wait until it runs out. So does a takeover that nobody
 * has decided: after `fail` or `release` the next claim would be a retry, which asks nobody.
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
    case 'duplicate':
      return store.complete([{ ...held, result: outcome.result }], options.dedupWindowMs)
    case 'failed':
      return store.fail([{ ...held, delayMs: outcome.delayMs }])
    case 'dead':
      // A refused message never touches the state of the event whose key it bears.
      return outcome.ref?.kind === 'refused'
        ? store.release([held])
        : store.bury([{ ...held, reason: outcome.reason }], options.dedupWindowMs)
    case 'skipped':
    case 'unguarded':
    case 'in-progress':
    case 'not-due':
    case 'conflict':
    case 'store-down':
    case 'abandoned':
      return store.release([held])
  }
}
