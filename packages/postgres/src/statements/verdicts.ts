import { BURIAL, entombed, replaced } from './attempts.ts'

/**
 * The ends of an attempt. Each takes its rows as JSON in `$1` (and the consumer id in `$2`), changes only rows in
 * state `r` with the given token, and answers the ids it changed. Verdicts without a token are of clean runs, which left
 * no row: for them it inserts a row, unless another process has inserted one since.
 */
export interface VerdictStatements {
  /**
   * `$1`: `id token fingerprint attempt delayMs mostDefers error key tenant`. State `w`. With `mostDefers` it is a deferral
   * of the handler: the attempt is given back. Answers the ids of those that were deferred too often with a `!` behind them.
   */
  readonly fail: string
  /** `$1`: as `fail`, and `reason` and the stored delivery. State `x`, to be published. */
  readonly bury: string
  /**
   * `$1`: as `bury`. For done events, which stay done: a statement of their handler came too late. Answers the ids of
   * those that are done still.
   */
  readonly noteLate: string
  /** `$1`: `id token noVerdict` (0 or 1). Attempt − 1: state `w` due now, or no row. */
  readonly release: string
}

/** Longest wait for a row that another transaction holds: long enough for a short transaction. Then the verdict is lost. */
const LOCK_WAIT_MS = 2_000

const FAILURE = `id uuid, token uuid, fingerprint bigint, attempt integer, "delayMs" double precision,
  "mostDefers" integer, error text, key text, tenant text`

export function verdictStatements(schema: string): VerdictStatements {
  return {
    fail: `
${owned(schema, FAILURE)},
mine as (
  update ${schema}.failed_events f set
    next_try = ${due}, token = null, alone = false, last_failed_at = clock_timestamp(),
    error = case when ${isDeferral} then f.error else verdict.error end,
    attempt = greatest(0, f.attempt - (${isDeferral})::integer), defers = f.defers + (${isDeferral})::integer
  from verdict join locked on locked.event_id = verdict.id
  where f.event_id = verdict.id and f.token = verdict.token and not ${isSpent}
  returning f.event_id
),
spent as (
  select f.event_id from ${schema}.failed_events f
  join verdict on verdict.id = f.event_id and verdict.token = f.token
  join locked on locked.event_id = f.event_id
  where ${isSpent}
),
${freshAndChanged(schema, 'w')},
noted as (
  insert into ${schema}.failed_events as f (event_id, consumer_id, attempt, defers, next_try, error, key, tenant)
  select id, $2::text::integer, attempt - (${isDeferral})::integer, (${isDeferral})::integer, ${due}, error, key, tenant
  from verdict join fresh on event_id = id
  on conflict (event_id) do update set ${replaced('excluded.attempt')}
)
${changedIds}
union all select event_id::text || '!' from spent`,

    bury: `
${owned(schema, BURIAL)},
mine as (
  update ${schema}.failed_events f set ${entombed('verdict')}
  from verdict join locked on locked.event_id = verdict.id
  where f.event_id = verdict.id and f.token = verdict.token
  returning f.event_id
),
${freshAndChanged(schema, 'x')},
noted as (
  insert into ${schema}.failed_events as f (event_id, consumer_id, attempt, reason, error, key, tenant,
    source, properties, envelope, headers, body, body_bytes, body_parts)
  select id, $2::text::integer, attempt, reason, error, key, tenant,
    source, decode(properties, 'base64'), decode(envelope, 'base64'), decode(headers, 'base64'),
    decode(body, 'base64'), "bodyBytes", "bodyParts"
  from verdict join fresh on event_id = id
  on conflict (event_id) do update set ${replaced('excluded.attempt')}
)
${changedIds}`,

    noteLate: `
with verdict as materialized (select * from json_to_recordset($1::text::json) as v(${BURIAL})),
done as materialized (
  select event_id from ${schema}.processed_events
  where event_id in (select id from verdict) and state = 'd' and consumer_id = $2::text::integer
  order by event_id for no key update
)
insert into ${schema}.failed_events as f (event_id, consumer_id, attempt, reason, error, key, tenant,
  source, properties, envelope, headers, body, body_bytes, body_parts)
select id, $2::text::integer, attempt, reason, error, key, tenant,
  source, decode(properties, 'base64'), decode(envelope, 'base64'), decode(headers, 'base64'),
  decode(body, 'base64'), "bodyBytes", "bodyParts"
from verdict join done on event_id = id
on conflict (event_id) do update set ${replaced('excluded.attempt')}
returning event_id::text as answer`,

    release: `
${owned(schema, 'id uuid, token uuid, "noVerdict" integer')},
mine as materialized (
  select f.event_id, greatest(f.attempt - 1, 0) as attempt, f.no_verdict + verdict."noVerdict" as no_verdict,
    f.alone or verdict."noVerdict" > 0 as alone,
    f.attempt <= 1 and f.no_verdict + verdict."noVerdict" = 0 and f.defers = 0 and not f.parked and f.reason is null as is_over
  from ${schema}.failed_events f
  join verdict on verdict.id = f.event_id and verdict.token = f.token
  join locked on locked.event_id = f.event_id
  order by f.event_id for update of f
),
kept as (
  update ${schema}.failed_events f set
    attempt = mine.attempt, no_verdict = mine.no_verdict, alone = mine.alone, token = null, next_try = clock_timestamp()
  from mine where f.event_id = mine.event_id and not mine.is_over
),
gone as (
  delete from ${schema}.failed_events f using mine where f.event_id = mine.event_id and mine.is_over
),
waiting as (
  update ${schema}.processed_events p set state = 'w' from mine
  where p.event_id = mine.event_id and p.state = 'r' and not mine.is_over
),
absent as (
  delete from ${schema}.processed_events p using mine
  where p.event_id = mine.event_id and p.state = 'r' and mine.is_over
)
select event_id::text as answer from mine`,
  }
}

/** The handler asked to come back later. */
const isDeferral = 'verdict."mostDefers" is not null'
const isSpent = '(f.defers >= coalesce(verdict."mostDefers", 2147483647))'

const due = `clock_timestamp() + verdict."delayMs" * interval '1 millisecond'`

/** The given rows as `verdict`, and as `locked` the events of those that carry a token. */
const owned = (schema: string, columns: string): string => `
with bound as materialized (select set_config('lock_timeout', '${LOCK_WAIT_MS}', true) as bound),
verdict as materialized (
  select v.* from bound, json_to_recordset($1::text::json) as v(${columns}) where bound is not null
),
locked as materialized (
  select event_id from ${schema}.processed_events
  where state = 'r' and event_id in (select id from verdict where token is not null)
  order by event_id for update
)`

const freshAndChanged = (schema: string, state: 'w' | 'x'): string => `
changed as (
  update ${schema}.processed_events p set state = '${state}' from mine
  where p.event_id = mine.event_id and p.state = 'r'
  returning p.event_id
),
fresh as (
  insert into ${schema}.processed_events (event_id, consumer_id, fingerprint, state)
  select id, $2::text::integer, fingerprint, '${state}' from verdict where token is null order by id
  on conflict (event_id) do nothing
  returning event_id
)`

const changedIds = `
select event_id::text as answer from changed union all select event_id::text from fresh`
