import { LATE } from '@onceward/core/adapter'
import type { BeginClaim, BeginRequest, Begun, EventId, Runtime } from '@onceward/core/ports'
import type { BeginContext } from '../driver/driver.ts'
import type { HeldConnection } from '../driver/held-connection.ts'
import type { SlotRequest } from '../driver/pool-slots.ts'
import { sqlState } from '../errors.ts'
import { doneOf, doneText } from '../inbox/done-events.ts'
import { LOCK_NOT_AVAILABLE, QUERY_CANCELED } from '../sqlstates.ts'
import type { Bounds } from './claim-sql.ts'

/** A claim without an answer within its waits for rows plus this time counts as a lost connection. */
const SILENCE_MS = 10_000
/** After a count nothing may wait long, because a counted run that has not begun after four seconds does not start. */
const COUNTED_WAIT_MS = 2_000
/** The largest time setting of PostgreSQL. */
const MAX_SETTING_MS = 2_147_483_647

export function countOf(claim: BeginClaim): number {
  if (claim.kind === 'none') return 0
  return claim.kind === 'move' ? 1 : claim.events.length
}

/** The time limits of a request as settings: whole milliseconds, and never 0, which means no limit. */
export function boundsOf({ waitMs, budgetMs }: BeginRequest): Bounds {
  const setting = (ms: number): number => Math.min(MAX_SETTING_MS, Math.max(1, Math.floor(ms)))
  return { lockMs: setting(Math.min(waitMs, budgetMs)), budgetMs: setting(budgetMs) }
}

/** How long the request may queue for a connection of the pool. */
export function slotRequest({ claim, budgetMs }: BeginRequest, runtime: Runtime): SlotRequest {
  if (claim.kind !== 'counted') return { runtime, limitMs: budgetMs }
  return { runtime, limitMs: Math.min(budgetMs, COUNTED_WAIT_MS), first: true }
}

/** Longest silence of the server while it claims, ms. */
export function claimSilenceMs({ claim, waitMs }: BeginRequest): number {
  return waitMs * countOf(claim) + SILENCE_MS
}

/** What an error of the claim's statements means. Undefined if it says nothing about the events. */
export function claimFailure(error: unknown, claim: BeginClaim): 'held' | 'none' | undefined {
  switch (sqlState(error)) {
    case LOCK_NOT_AVAILABLE:
    case QUERY_CANCELED: // the budget was shorter than the wait
    case '40P01': // deadlock_detected
      return 'held'
    case '40001':
      // Under REPEATABLE READ: another transaction changed a row. A single event is read again (trap T11). Of several
      // events it is unknown which row changed, so they continue one by one.
      return countOf(claim) > 1 ? 'held' : 'none'
    default:
      return undefined
  }
}

const NOTHING_OPEN = { kind: 'none' } as const
const HELD = { kind: 'held' } as const

/** Starts a rollback without waiting for it, and returns that no transaction is open. */
export function nothingOpen<Tx>(held: HeldConnection<Tx>, kind: 'held' | 'none'): Begun<Tx> {
  held
    .send(['rollback'], SILENCE_MS, 'no-rows')
    .then(
      (answer) => (answer === LATE ? held.destroy() : held.release()),
      () => held.destroy(),
    )
    // A listener of the pool may throw.
    .catch(() => undefined)
  return kind === 'held' ? HELD : NOTHING_OPEN
}

/**
 * Rolls back and reads, in one round trip: an event that could not be claimed is usually done.
 *
 * The connection may give no answer, for example because of settings that another user of the pool left on it. It is
 * closed then, and the next statement of the guard reads the states of the events over another one.
 */
export async function nothingClaimed<Tx>(
  held: HeldConnection<Tx>,
  claim: BeginClaim,
  { statements }: Pick<BeginContext, 'statements'>,
): Promise<Begun<Tx>> {
  if (claim.kind !== 'fresh' || held.endsWithTransaction === true) return nothingOpen(held, 'none')
  const { events } = claim
  try {
    const answer = await held.send(['rollback', doneText(statements, events)], SILENCE_MS)
    if (answer !== LATE) {
      held.release()
      return { kind: 'none', done: doneOf(events, answer) }
    }
    // A read waits for a lock on the table without a limit, and the server does not notice that its client has gone.
    await held.cancel()
  } catch {
    // The next statement reports what is wrong, if it is the server.
  }
  held.destroy()
  return NOTHING_OPEN
}

/** What a claim took. */
export interface Taken {
  readonly claimed: ReadonlySet<EventId>
  /** Id of the transaction: identifies its rows, in case a handler commits it in the middle of several events. */
  readonly xid: string | undefined
}

/** Reads the row of `takingTexts`. */
export function takenIn(row: Readonly<Record<string, unknown>> = {}): Taken {
  const ids = String(row['ids'] ?? '')
  const claimed = new Set(ids === '' ? [] : (ids.split(',') as EventId[]))
  return { claimed, xid: claimed.size === 0 ? undefined : String(row['xid']) }
}

/** Reads the rows of a claim that answers a row for each event. */
export function takenInRows(rows: readonly Readonly<Record<string, unknown>>[]): Taken {
  const claimed = new Set(rows.map((row) => String(row['event_id']) as EventId))
  return { claimed, xid: claimed.size === 0 ? undefined : String(rows[0]?.['xmin']) }
}

/** The ids of a claim for at most one event, where the number of rows is enough. */
export function claimedByCount(claim: BeginClaim, rowCount: number): ReadonlySet<EventId> {
  const ids = new Set<EventId>()
  if (rowCount === 0) return ids
  if (claim.kind === 'fresh') for (const { id } of claim.events) ids.add(id)
  if (claim.kind === 'move') ids.add(claim.move.id)
  if (claim.kind === 'counted') for (const { event } of claim.events) ids.add(event.id)
  return ids
}
