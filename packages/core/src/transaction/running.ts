import { overtaking } from '../concurrency/lanes.ts'
import type { StopSignals } from '../concurrency/stop-signals.ts'
import type { Collected } from '../handler/outbox.ts'
import { LATEST_START_MS } from '../model/attempt-machine.ts'
import type { EventId, Json } from '../model/brands.ts'
import type { BeginClaim, Begun, InboxTransaction } from '../model/inbox.ts'
import type { Release } from '../model/runtime.ts'
import type { Aboard, Driver } from './chain.ts'
import type { Engine } from './engine.ts'
import { divided, laneOf, type PendingEvent } from './pending-event.ts'
import type { TransactionEnd } from './transaction-end.ts'

export interface PartRequest {
  readonly members: readonly PendingEvent[]
  /** Given if something else than their rows is claimed for the members: their place, or nothing. */
  readonly claim?: Extract<BeginClaim, { kind: 'move' | 'none' }> | undefined
  /** Maximum wait for one row, ms. */
  readonly waitMs: number
  readonly signals: StopSignals
  readonly hold: Release
  /** Given if the COMMIT may take the next run along. */
  readonly driver?: Driver | undefined
  /** Given if the COMMIT of another run may have begun the transaction. */
  readonly aboard?: Aboard | undefined
}

/** An open transaction and the events that run in it. */
export interface Running {
  readonly engine: Engine
  readonly transaction: InboxTransaction<unknown>
  readonly claimed: readonly PendingEvent[]
  readonly unclaimed: readonly PendingEvent[]
  readonly signals: StopSignals
  readonly hold: Release
  readonly driver: Driver | undefined
  /** `move`: nothing is stored of the events, so what the handlers return is ignored. `none`: it is only answered. */
  readonly claims: 'rows' | 'move' | 'none'
  /** What the handlers returned. Made for the first result, because most handlers return nothing. */
  results?: Map<EventId, Json>
  texts?: Map<EventId, string>
  /** What the handlers have sent. Made for the first message. */
  collected?: Collected
}

export function toRunning(
  engine: Engine,
  { claim, driver, hold, members, signals }: PartRequest,
  { claimed: ids, transaction }: Extract<Begun<unknown>, { kind: 'open' }>,
): Running {
  // No event is twice among the members.
  const isAll = claim !== undefined || ids.size === members.length
  const [claimed, unclaimed] = isAll ? [members, []] : divided(members, ids)
  const claims = claim?.kind ?? 'rows'
  return { engine, transaction, claimed, unclaimed, signals, hold, driver, claims }
}

export const LATE = { kind: 'late' } as const

/** Why no handler may start in the open transaction. */
export function misbegun(
  { claimed, engine, unclaimed }: Running,
  members: readonly PendingEvent[],
): TransactionEnd | undefined {
  for (const { counted } of claimed)
    if (counted !== undefined && isLate(engine, counted)) return LATE
  if (unclaimed.length === 0 || overtaking(members, claimed, laneOf).length === 0) return undefined
  return { kind: 'overtaking', claimed, unclaimed }
}

function isLate({ options }: Engine, counted: { readonly countedAtMs: number }): boolean {
  return options.runtime.monotonic() - counted.countedAtMs > LATEST_START_MS
}
