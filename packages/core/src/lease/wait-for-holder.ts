import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Runtime } from '../model/runtime.ts'
import { type Claimed, claimLeases, type Leases } from './claim.ts'

/** When a twin is asked for again, in shares of `claimWaitMs`: most are over soon, and a waiter must not poll. */
const PAUSES = [0.1, 0.3, 0.6] as const

/** Whether another process has the event in hand. */
export function isHeldElsewhere(claimed: Claimed | undefined): boolean {
  return claimed?.kind === 'outcome' && claimed.outcome.kind === 'in-progress'
}

/**
 * Waits at most `claimWaitMs` for an event that another process has in hand, so that a copy that came beside it learns
 * how it ended instead of being deferred. Three more calls of the store, however long the wait (trap A18).
 *
 * @param claimed - What the store has said; answered again when it says nothing better, or nothing at all.
 */
export async function waitForHolder(
  leases: Leases,
  member: InFlightEvent,
  { claimed, signals }: { readonly claimed: Claimed; readonly signals: StopSignals },
): Promise<Claimed> {
  const { claimWaitMs, runtime } = leases.options
  let last = claimed
  for (const share of PAUSES) {
    if (!isHeldElsewhere(last)) break
    await pause(runtime, share * claimWaitMs, signals)
    if (signals.isStopping()) break
    const [next] = await claimLeases(leases, [member])
    if (next !== undefined && next.kind !== 'unavailable') last = next
  }
  return last
}

function pause(runtime: Runtime, ms: number, { whenStopping }: StopSignals): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const cancel = runtime.setTimer(resolve, ms)
  const unsubscribe = whenStopping(resolve)
  return promise.finally(() => {
    cancel()
    unsubscribe()
  })
}
