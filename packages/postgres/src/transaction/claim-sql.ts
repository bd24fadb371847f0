import type { BeginClaim, CountedEvent, IdentifiedEvent } from '@onceward/core'
import { DURABLE, isAtMost, type SessionSettings } from '../driver/session-settings.ts'

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

/** Names the isolation level, because users may have changed the default. */
export const beginText: (isolation: Isolation) => string = (isolation) =>
  `begin isolation level ${isolation}`

/**
 * Sets the time limits of the claim and of the transaction, if the settings of the session are known. A shorter limit
 * of the user stays.
 */
export function boundTexts({ lockMs, budgetMs }: Bounds, settings: SessionSettings): string[] {
  const texts = [`set local lock_timeout = ${lockMs}`]
  if (!isAtMost(settings.statementTimeout, budgetMs)) {
    texts.push(`set local statement_timeout = ${budgetMs}`)
  }
  if (!isAtMost(settings.idleTimeout, budgetMs)) {
    texts.push(`set local idle_in_transaction_session_timeout = ${budgetMs}`)
  }
  if (settings.synchronousCommit === 'off') texts.push(DURABLE)
  return texts
}

/** Restores the user's `lock_timeout` before the handler runs. */
export function restoreText({ lockTimeout }: SessionSettings): string {
  return `set local lock_timeout = '${lockTimeout}'`
}

/** A setting that stores the user's `lock_timeout` while the claim runs. It ends with the transaction. */
const REMEMBERED = 'onceward.lock_timeout'

/**
 * As {@link boundTexts}, if the settings of the session are not known, as behind PgBouncer. The server compares the
 * settings and answers their former values. The inner select is evaluated first.
 */
export function unknownBoundText({ lockMs, budgetMs }: Bounds): string {
  const budget = (name: string): string =>
    `case when extract(epoch from ${name}::interval) * 1000 between 1 and ${budgetMs} then ${name} else '${budgetMs}' end`
  return `select before.*, pg_backend_pid()::text as pid,
  set_config('${REMEMBERED}', lock_timeout, true),
  set_config('lock_timeout', '${lockMs}', true),
  set_config('statement_timeout', ${budget('statement_timeout')}, true),
  set_config('idle_in_transaction_session_timeout', ${budget('idle_timeout')}, true),
  set_config('synchronous_commit', case synchronous_commit when 'off' then 'on' else synchronous_commit end, true)
from (
  select current_setting('lock_timeout') as lock_timeout, current_setting('statement_timeout') as statement_timeout,
    current_setting('idle_in_transaction_session_timeout') as idle_timeout,
    current_setting('synchronous_commit') as synchronous_commit
  offset 0
) before`
}

/** Restores the remembered `lock_timeout`; an expression for a select list or `returning` of one row. */
export const RESTORE: string = `set_config('lock_timeout', current_setting('${REMEMBERED}'), true)`

/** The statements of a claim. The last one takes the rows, the others only lock. No claim has no statements. */
export function claimTexts(claim: BeginClaim, target: ClaimTarget): string[] {
  switch (claim.kind) {
    case 'fresh':
      return [freshText(claim.events, target)]
    case 'counted':
      return countedTexts(claim.events, target)
    case 'none':
      return []
  }
}

function freshText(events: readonly IdentifiedEvent[], target: ClaimTarget): string {
  const rows = sorted(events, ({ id }) => id).map(
    ({ id, fingerprint }) => `('${id}',${fingerprint},${target.consumerId})`,
  )
  return `insert into ${target.schema}.processed_events (event_id, fingerprint, consumer_id) values ${rows.join()} on conflict do nothing${target.returning}`
}

/** Reads the done events: id, fingerprint, and the result in an array if there is one. */
export function doneText(
  events: readonly IdentifiedEvent[],
  { schema }: Pick<ClaimTarget, 'schema'>,
): string {
  const result = `select json_build_array(r.result) from ${schema}.event_results r where r.event_id = p.event_id`
  const ids = events.map(({ id }) => `'${id}'`).join()
  return `select json_build_array(p.event_id, p.fingerprint::text, (${result}))::text as answer from ${schema}.processed_events p where p.event_id in (${ids}) and p.state = 'd'`
}

/**
 * Locks the rows first and reads the tokens in the next statement: an update that waits for a row goes on with the
 * token it read before, so an owner that was replaced meanwhile would still claim. `for update` on the token's own row
 * makes it fail under REPEATABLE READ too.
 */
function countedTexts(counted: readonly CountedEvent[], target: ClaimTarget): string[] {
  const { schema, returning } = target
  const owners = sorted(counted, ({ event }) => event.id)
  const ids = owners.map(({ event }) => `'${event.id}'`).join()
  const tokens = owners.map(({ event, token }) => `('${event.id}'::uuid,'${token}'::uuid)`).join()
  return [
    `select from ${schema}.processed_events where event_id in (${ids}) order by event_id for update`,
    `update ${schema}.processed_events p set state = 'd', processed_at = now() from (select event_id as owned from ${schema}.failed_events where (event_id, token) in (${tokens}) for update) mine where p.event_id = mine.owned and p.state = 'r'${returning}`,
  ]
}

/** All claims use the same order, or two claims deadlock. */
function sorted<Item>(items: readonly Item[], idOf: (item: Item) => string): readonly Item[] {
  if (items.length < 2) return items
  return items.toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
}
