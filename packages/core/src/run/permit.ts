import { ALONE_WAIT_MS } from '../concurrency/alone-lock.ts'
import type { Semaphore, Ticket } from '../concurrency/semaphore.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { Release, Runtime } from '../model/runtime.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { Processing } from './processing.ts'

/** Deferral of a delivery that a handler processes itself while its guard has no free slot, ms. */
const NO_SLOT_MS = 1_000

export interface SlotRequest<Kind extends Ticket> {
  readonly slots: Semaphore<Kind>
  readonly ticket?: Kind | undefined
  readonly runtime: Runtime
  readonly signals: StopSignals
}

/**
 * Resolves with a slot, or with the outcome if there is none.
 *
 * A run inside a handler waits for a bounded time: the handlers that hold the slots may be waiting for such runs.
 */
export function takeSlot<Kind extends Ticket>({
  runtime,
  signals,
  slots,
  ticket,
}: SlotRequest<Kind>): Promise<Release | Outcome> {
  const limit = runtime.alone.isInside() ? { runtime, ms: ALONE_WAIT_MS } : undefined
  // By callbacks, because half of the events wait here under load.
  return slots.acquire({ stop: signals.whenStopping, limit, ticket }).then((slot) => {
    if (slot !== undefined) return slot
    return signals.isStopping()
      ? { kind: 'abandoned', reason: 'closing' }
      : { kind: 'in-progress', delayMs: NO_SLOT_MS, cause: 'no-free-slot' }
  })
}

/** Permission to run beside other runs: a slot, and the lock that runs share. */
export interface RunPermit {
  readonly hold: Release
  readonly release: () => void
}

/** Like {@link takeSlot}, for a run that never takes place beside an event that must run alone. */
export async function takePermit({
  options,
  signals,
  stores,
}: Pick<Processing, 'options' | 'signals' | 'stores'>): Promise<RunPermit | Outcome> {
  const { runtime } = options
  const { slots } = stores
  const { alone } = runtime
  const slot = slots.tryAcquire() ?? (await takeSlot({ slots, runtime, signals }))
  if (typeof slot !== 'function') return slot
  const hold = alone.tryShared() ?? (await alone.shared({ stop: signals.whenStopping }))
  const release = (): void => {
    hold?.()
    slot()
  }
  if (hold !== undefined && !signals.isStopping()) return { hold, release }
  release()
  return { kind: 'abandoned', reason: 'closing' }
}
