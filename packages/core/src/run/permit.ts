import { ALONE_WAIT_MS } from '../concurrency/alone-lock.ts'
import type { Semaphore, Ticket } from '../concurrency/semaphore.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import { describeError } from '../model/errors.ts'
import { toGuardEvent } from '../model/in-flight-event.ts'
import type { Release, Runtime } from '../model/runtime.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { end, isOver } from './end-event.ts'
import type { Processing } from './processing.ts'
import type { Routed, Strategy } from './route.ts'

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
    return slot ?? notStarted(signals)
  })
}

/** The outcome of an event whose wait to start has ended without a start. */
export const notStarted = (signals: StopSignals): Outcome =>
  signals.isStopping()
    ? { kind: 'abandoned', reason: 'closing' }
    : { kind: 'in-progress', delayMs: NO_SLOT_MS, cause: 'no-free-slot' }

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

/** All events whose group is not known share one, so that a mistake bounds too much and not too little. */
const UNKNOWN = ''

/** Each event waits for room in its group before it queues for a slot. */
export const inGroups =
  (strategy: Strategy): Strategy =>
  async (processing, events) => {
    const { options, signals, stores } = processing
    const { runtime } = options
    for (const event of events) {
      if (isOver(processing, event)) continue
      const name = groupOf(processing, event)
      // A run inside of a handler may wait for that handler.
      const limit = runtime.alone.isInside() ? { runtime, ms: ALONE_WAIT_MS } : undefined
      const wait = { stop: signals.whenStopping, limit }
      const release = name === undefined ? free : await stores.groups?.acquire(name, wait)
      if (release === undefined) {
        await end(processing, event, notStarted(signals))
        continue
      }
      try {
        if (!isOver(processing, event)) await strategy(processing, [event])
      } finally {
        release()
      }
    }
  }

const free = (): void => undefined

function groupOf({ options }: Processing, { member }: Routed): string | undefined {
  const { groupConcurrency, reportOnce } = options
  try {
    const name: unknown = groupConcurrency?.by(toGuardEvent(member, 1))
    if (name === undefined || typeof name === 'string') return name
    reportOnce(
      'error',
      { answered: typeof name },
      'groupConcurrency.by must answer a text, its events are bounded together: fix the function',
    )
  } catch (error) {
    reportOnce(
      'error',
      { err: describeError(error) },
      'groupConcurrency.by threw, its events are bounded together: fix the function',
    )
  }
  return UNKNOWN
}
