import { isHeldElsewhere, waitForHolder } from '../lease/wait-for-holder.ts'
import { STORE_DOWN_MS } from '../settlement/store-down.ts'
import { claimEach, startFlight } from './claim-events.ts'
import { end } from './end-event.ts'
import type { Processing } from './processing.ts'
import type { Routed } from './route.ts'

/**
 * Waits for other runs of the event: first for one of this process, then for one of another. The event may run then, or
 * it has its outcome.
 */
export async function waitForOthers(processing: Processing, event: Routed): Promise<void> {
  if (event.endFlight !== undefined || (await isFreeHere(processing, event))) {
    await waitForOwner(processing, event)
  }
}

/** Waits until this process has the event in flight no more, and claims it. Otherwise the event is deferred. */
async function isFreeHere(processing: Processing, event: Routed): Promise<boolean> {
  const { inFlight, options, settling, stores } = processing
  const { id } = event.member.event
  // The run of another payload of the same call is over. Only its settlement may be left.
  await settling.get(id)
  if (!(await inFlight.waitFor(id, options.claimWaitMs))) {
    const delayMs = stores.engine?.heldBackoff.nextMs(id) ?? STORE_DOWN_MS
    void end(processing, event, { kind: 'in-progress', delayMs, cause: 'in-flight-here' })
    return false
  }
  if (startFlight(processing, event)) return false
  if (stores.leases !== undefined) await claimEach(stores.leases, [event])
  return true
}

/**
 * An event that another process holds is claimed again, for a short time. The row decides about one that the lease store
 * does not report as done, and also about a lease that does not end while a caller waits.
 */
async function waitForOwner(processing: Processing, event: Routed): Promise<void> {
  const { claimed } = event
  const { signals, stores } = processing
  const { engine, leases } = stores
  if (leases === undefined || claimed === undefined) return
  const last = isHeldElsewhere(claimed)
    ? await waitForHolder(leases, event.member, { claimed, signals })
    : claimed
  event.claimed = last
  if (last.kind === 'run') event.member = last.member
  if (last.kind !== 'outcome') return
  // A caller waits for its answer. The process that holds the lease may be dead, and then the row is free.
  const asksRow = leases.options.callerRetries !== undefined && isHeldElsewhere(last)
  if (asksRow && engine !== undefined) {
    event.claimed = { kind: 'run', member: event.member, takeover: false }
  } else void end(processing, event, last.outcome)
}
