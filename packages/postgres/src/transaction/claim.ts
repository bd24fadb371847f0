import type {
  BeginClaim,
  BeginRequest,
  Begun,
  DoneEvent,
  EventId,
  Fingerprint,
  IdentifiedEvent,
  Json,
  Runtime,
} from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'
import type { BeginContext } from '../driver/driver.ts'
import type { HeldConnection, SendAnswer } from '../driver/held-connection.ts'
import type { SlotRequest } from '../driver/pool-slots.ts'
import { answers } from '../driver/rows.ts'
import { sqlState } from '../errors.ts'
import { LOCK_NOT_AVAILABLE } from '../sqlstates.ts'
import { type Bounds, doneText } from './claim-sql.ts'

/** Beyond its waits for rows, a claim that is not answered within this has no connection any more. */
const SILENCE_MS = 10_000
/** After a count nothing may wait: a run that starts later than four seconds after it does not start. */
const COUNTED_WAIT_MS = 2_000
/** PostgreSQL's largest setting of a time. */
const MAX_SETTING_MS = 2_147_483_647

export function countOf(claim: BeginClaim): number {
  return claim.kind === 'none' ? 0 : claim.events.length
}

/** The server's settings for a request: whole milliseconds, never 0, which is no bound. */
export function boundsOf({ waitMs, budgetMs }: BeginRequest): Bounds {
  const setting = (ms: number): number => Math.min(MAX_SETTING_MS, Math.max(1, Math.floor(ms)))
  return { lockMs: setting(Math.min(waitMs, budgetMs)), budgetMs: setting(budgetMs) }
}

/** How long the request may queue for a connection that other guards of the pool use. */
export function slotRequest({ claim, budgetMs }: BeginRequest, runtime: Runtime): SlotRequest {
  if (claim.kind !== 'counted') return { runtime, limitMs: budgetMs }
  return { runtime, limitMs: Math.min(budgetMs, COUNTED_WAIT_MS), first: true }
}

/** Longest silence of the server while it claims, ms. */
export function claimSilenceMs({ claim, waitMs }: BeginRequest): number {
  return waitMs * countOf(claim) + SILENCE_MS
}

/** What an error of the claim's own statements means; undefined when it is none of the events'. */
export function claimFailure(error: unknown, claim: BeginClaim): 'held' | 'none' | undefined {
  switch (sqlState(error)) {
    case LOCK_NOT_AVAILABLE:
    case '57014': // query_canceled: the budget was shorter than the wait
    case '40P01': // deadlock_detected
      return 'held'
    case '40001':
      // Under REPEATABLE READ: another transaction has finished with a row. One event is read again (trap T11); of
      // several nobody knows which, so they go on one by one.
      return countOf(claim) > 1 ? 'held' : 'none'
    default:
      return undefined
  }
}

const NOTHING_OPEN = { kind: 'none' } as const
const HELD = { kind: 'held' } as const

/** Rolls back without keeping anybody waiting, and answers that nothing is open. */
export function nothingOpen<Tx>(
  held: HeldConnection<Tx>,
  kind: 'held' | 'none',
  runtime: Runtime,
): Begun<Tx> {
  answerWithin(runtime, held.send(['rollback']), SILENCE_MS).then(
    (answer) => (answer === LATE ? held.destroy() : held.release()),
    () => held.destroy(),
  )
  return kind === 'held' ? HELD : NOTHING_OPEN
}

/** Rolls back and looks, in one round trip: what could not be claimed afresh is mostly done. */
export async function nothingClaimed<Tx>(
  held: HeldConnection<Tx>,
  claim: BeginClaim,
  { statements, runtime }: Pick<BeginContext, 'statements' | 'runtime'>,
): Promise<Begun<Tx>> {
  if (claim.kind !== 'fresh') return nothingOpen(held, 'none', runtime)
  try {
    const look = held.send(['rollback', doneText(claim.events, statements)])
    const answer = await answerWithin(runtime, look, SILENCE_MS)
    if (answer !== LATE) {
      held.release()
      return { kind: 'none', done: doneOf(claim.events, answer) }
    }
  } catch {
    // Who asks again finds out what is wrong.
  }
  held.destroy()
  return NOTHING_OPEN
}

type DoneRow = readonly [id: EventId, fingerprint: string, result: readonly [Json] | null]

function doneOf(
  events: readonly IdentifiedEvent[],
  answer: SendAnswer,
): readonly (DoneEvent | undefined)[] {
  const rows = new Map(answers<DoneRow>(answer).map((row) => [row[0], row]))
  return events.map(({ id }) => {
    const row = rows.get(id)
    if (row === undefined) return undefined
    const [, fingerprint, result] = row
    const done = { kind: 'done', fingerprint: BigInt(fingerprint) as Fingerprint } as const
    return result === null ? done : { ...done, result: result[0] }
  })
}

/** The ids of a claim that was for one event or for none, where the number of rows says all. */
export function claimedByCount(claim: BeginClaim, rowCount: number): ReadonlySet<EventId> {
  const ids = new Set<EventId>()
  if (rowCount === 0) return ids
  if (claim.kind === 'fresh') for (const { id } of claim.events) ids.add(id)
  if (claim.kind === 'counted') for (const { event } of claim.events) ids.add(event.id)
  return ids
}
