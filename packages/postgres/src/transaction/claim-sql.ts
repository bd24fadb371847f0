import type { BeginClaim, CountedEvent, IdentifiedEvent } from '@onceward/core/ports'
import {
  DURABLE,
  isAtMost,
  READ_SETTINGS,
  type SessionSettings,
  settingMs,
} from '../driver/session-settings.ts'
import { literal } from '../driver/sql-literal.ts'
import { moveText } from '../statements/offsets.ts'

/** Isolation level of business transactions. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

export interface Bounds {
  /** Longest wait for one lock, ms. */
  readonly lockMs: number
  /** Longest statement and longest silence between two, ms. */
  readonly budgetMs: number
}

/** Where `claimTexts` writes. */
export interface ClaimTarget {
  /** Quoted for SQL. */
  readonly schema: string
  readonly consumerId: number
  /** Follows the claim of rows. Empty if the number of rows is enough. */
  readonly returning: string
}

/** Names the isolation level and the access mode, because users may have changed the defaults. */
export const beginText: (isolation: Isolation) => string = (isolation) =>
  `begin isolation level ${isolation} read write`

/**
 * Sets the time limits of the claim and of the transaction, if the settings of the session are known. A shorter limit
 * of the user stays.
 */
export function boundTexts(
  { lockMs, budgetMs }: Bounds,
  settings: SessionSettings,
): readonly string[] {
  const texts: string[] = []
  if (settingMs(settings.lockTimeout) !== lockMs) texts.push(`set local lock_timeout = ${lockMs}`)
  if (!isAtMost(settings.statementTimeout, budgetMs)) {
    texts.push(`set local statement_timeout = ${budgetMs}`)
  }
  if (!isAtMost(settings.idleTimeout, budgetMs)) {
    texts.push(`set local idle_in_transaction_session_timeout = ${budgetMs}`)
  }
  if (settings.synchronousCommit === 'off') texts.push(DURABLE)
  return texts
}

/** What stands before a claim in its text, and behind it, if the settings of the session are known. */
export interface Frame {
  readonly before: string
  readonly behind: string
}

export function frameOf(isolation: Isolation, bounds: Bounds, settings: SessionSettings): Frame {
  const known = frames.get(settings)
  const isKnown =
    known?.lockMs === bounds.lockMs &&
    known.budgetMs === bounds.budgetMs &&
    known.isolation === isolation
  if (isKnown) return known
  const before = [beginText(isolation), ...boundTexts(bounds, settings)].join('; ')
  const frame = { ...bounds, isolation, before, behind: restoreText(settings) }
  frames.set(settings, frame)
  return frame
}

/** The last frame for each session: most transactions of a session have the same bounds. */
const frames = new WeakMap<SessionSettings, Frame & Bounds & { readonly isolation: Isolation }>()

/**
 * The same time limits as settings of a session that only onceward uses: its transactions need not set them. All of them,
 * because the session may have those of a transaction that had less time.
 *
 * @param former - As the session was before onceward gave it limits.
 */
export function sessionBoundTexts(
  { lockMs, budgetMs }: Bounds,
  { statementTimeout, idleTimeout }: SessionSettings,
): string[] {
  const limit = (former: string): string =>
    isAtMost(former, budgetMs) ? literal(former) : String(budgetMs)
  return [
    `set lock_timeout = ${lockMs}`,
    `set statement_timeout = ${limit(statementTimeout)}`,
    `set idle_in_transaction_session_timeout = ${limit(idleTimeout)}`,
  ]
}

/** Restores the user's `lock_timeout` before the handler runs. */
export function restoreText(settings: Pick<SessionSettings, 'handlerLockTimeout'>): string {
  return `set local lock_timeout = '${settings.handlerLockTimeout}'`
}

/** Reads the process and the settings of a session, outside of a transaction. */
export const READ_SESSION: string = `select pg_catalog.pg_backend_pid()::pg_catalog.text as pid, ${READ_SETTINGS}`

/** A setting that stores the user's `lock_timeout` while the claim runs. It ends with the transaction. */
const REMEMBERED = 'onceward.lock_timeout'

/**
 * As {@link boundTexts}, if the settings of the session are not known, as behind PgBouncer. The server compares the
 * settings and answers their former values. The inner select is evaluated first.
 */
export const unknownBoundText = ({ lockMs, budgetMs }: Bounds): string =>
  boundTextOf({
    lock: `'${lockMs}'`,
    budget: `'${budgetMs}'`,
    interval: `'${budgetMs} milliseconds'`,
  })

/** The limits as expressions: literals, or parameters of a statement that is prepared once. */
export interface BoundExpressions {
  readonly lock: string
  readonly budget: string
  /** The budget as an interval. */
  readonly interval: string
}

export function boundTextOf({ lock, budget, interval }: BoundExpressions): string {
  const set = (name: string, value: string): string =>
    `pg_catalog.set_config('${name}', ${value}, true)`
  // Functions in place of operators: these a user may have in a schema that comes before pg_catalog.
  const within = (name: string): string =>
    `case when pg_catalog.interval_gt(${name}::pg_catalog.interval, '0') and pg_catalog.interval_le(${name}::pg_catalog.interval, ${interval}) then ${name} else ${budget} end`
  return `select before.*, pg_catalog.pg_backend_pid()::pg_catalog.text as pid,
  ${set(REMEMBERED, 'lock_timeout')},
  ${set('lock_timeout', lock)},
  ${set('statement_timeout', within('statement_timeout'))},
  ${set('idle_in_transaction_session_timeout', within('idle_timeout'))},
  ${set('synchronous_commit', "case when pg_catalog.texteq(synchronous_commit, 'off') then 'on' else synchronous_commit end")}
from (select ${READ_SETTINGS} offset 0) before`
}

/** Restores the remembered `lock_timeout`; an expression for a select list or `returning` of one row. */
export const RESTORE: string = `pg_catalog.set_config('lock_timeout', pg_catalog.current_setting('${REMEMBERED}'), true)`

/** The statements of a claim. The last one takes the rows, the others only lock. No claim has no statements. */
export function claimTexts(claim: BeginClaim, target: ClaimTarget): string[] {
  switch (claim.kind) {
    case 'fresh':
      return [freshText(claim.events, target)]
    case 'counted':
      return countedTexts(claim.events, target)
    case 'none':
      return []
    case 'move':
      return [`${moveText(claim.move, target.schema)}${target.returning}`]
  }
}

/** What a claim returns for each of its events. */
export const FEW_ROWS = ' returning event_id, xmin'
/** Up to so many rows, the server spends more on putting them together than a client spends on reading them. */
const MOST_ROWS = 16

/** Whether a claim for several events answers a row for each of them: {@link FEW_ROWS}. */
export function isOfFewRows(claim: BeginClaim): boolean {
  return claim.kind === 'fresh' && claim.events.length > 1 && claim.events.length <= MOST_ROWS
}

/** What `takenIn` reads. All rows have one transaction, and the least of their texts would take a tenth of the claim. */
export const IDS =
  "pg_catalog.string_agg(event_id::pg_catalog.text, ',') as ids, (pg_catalog.array_agg(xmin))[1]::pg_catalog.text as xid"

/**
 * The statements of a claim for several events. The last one answers a single row for all of them, because a client
 * spends more on a row than on what is in it: the ids, the id of the transaction, and what `more` selects.
 */
export function takingTexts(
  claim: BeginClaim,
  target: Omit<ClaimTarget, 'returning'>,
  more = '',
): string[] {
  const texts = claimTexts(claim, { ...target, returning: FEW_ROWS })
  const taking = `with taken as (${texts.at(-1)}) select ${IDS}${more} from taken`
  return [...texts.slice(0, -1), taking]
}

function freshText(events: readonly IdentifiedEvent[], target: ClaimTarget): string {
  const rows =
    events.length === 1
      ? `values ${events.map(({ id, fingerprint }) => `('${id}',${fingerprint},${target.consumerId})`).join()}`
      : freshRows(events, target.consumerId)
  return `insert into ${target.schema}.processed_events (event_id, fingerprint, consumer_id) ${rows} on conflict (event_id) do nothing${target.returning}`
}

/**
 * Several rows come as two arrays, which cost the server a tenth less than a list of values. Each array has an `unnest`
 * of its own, because the form for several arrays cannot be named with its schema.
 */
function freshRows(events: readonly IdentifiedEvent[], consumerId: number): string {
  const { ids, fingerprints } = freshArrays(events)
  return freshRowsOf(`'${ids}'`, `'${fingerprints}'`, String(consumerId))
}

/** The rows of expressions for the two arrays. */
export function freshRowsOf(ids: string, fingerprints: string, consumerId: string): string {
  const unnested = (array: string, type: string): string =>
    `pg_catalog.unnest(${array}::pg_catalog.${type}[])`
  return `select id, fingerprint, ${consumerId} from rows from (${unnested(ids, 'uuid')}, ${unnested(fingerprints, 'int8')}) fresh(id, fingerprint)`
}

/** Ids and fingerprints of fresh events as array literals, in the order of all claims. */
export function freshArrays(events: readonly IdentifiedEvent[]): {
  readonly ids: string
  readonly fingerprints: string
} {
  const rows = sorted(events, ({ id }) => id)
  return {
    ids: `{${rows.map(({ id }) => id).join()}}`,
    fingerprints: `{${rows.map(({ fingerprint }) => fingerprint).join()}}`,
  }
}

/** The operator of PostgreSQL, whatever the user's `search_path` is. */
const EQUALS = 'operator(pg_catalog.=)'

const anyOf = (events: readonly { readonly id: string }[]): string =>
  `${EQUALS} any ('{${events.map(({ id }) => id).join()}}'::pg_catalog.uuid[])`

/**
 * Locks the rows first and reads the tokens in the next statement: an update that waits for a row continues with the
 * token it read before, so an owner that was replaced meanwhile would still claim. `for update` on the token's own row
 * makes it fail under REPEATABLE READ too.
 */
function countedTexts(counted: readonly CountedEvent[], target: ClaimTarget): string[] {
  const { schema, returning } = target
  const owners = sorted(counted, ({ event }) => event.id)
  const tokens = owners
    .map(({ event, token }) => `('${event.id}'::pg_catalog.uuid,'${token}'::pg_catalog.uuid)`)
    .join()
  const owned = `select f.event_id as owned from ${schema}.failed_events f, (values ${tokens}) o(id, owner) where f.event_id ${EQUALS} o.id and f.token ${EQUALS} o.owner for update of f`
  return [
    `select from ${schema}.processed_events where event_id ${anyOf(owners.map(({ event }) => event))} order by event_id for update`,
    `update ${schema}.processed_events p set state = 'd', processed_at = pg_catalog.now() from (${owned}) mine where p.event_id ${EQUALS} mine.owned and p.state ${EQUALS} 'r'${returning}`,
  ]
}

/** All claims use the same order, or two claims deadlock. */
function sorted<Item>(items: readonly Item[], idOf: (item: Item) => string): readonly Item[] {
  if (items.length < 2) return items
  return items.toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
}
