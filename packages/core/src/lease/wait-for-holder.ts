import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { Runtime } from '../model/runtime.ts'
import { type Claimed, claimLeases, type Leases } from './claim.ts'

/** Pauses between claims, as shares of `claimWaitMs`. Most runs end soon, and a waiter must not poll often. */
const PAUSES = [0.1, 0.3, 0.6] as const

/** Whether another process holds the event. */
export function isHeldElsewhere(claimed: Claimed): boolean {
  return claimed.kind === 'outcome' && claimed.outcome.kind === 'in-progress'
}

/**
 * Waits at most `claimWaitMs` for an event that another process holds. A concurrent copy then gets the outcome instead
 * of a deferral. The store gets at most three more calls, however long the wait is (acceptance A18).
 *
 * @param claimed - The store's first answer, which is returned if no later answer is better.
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
