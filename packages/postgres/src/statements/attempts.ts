import { isAhead, unpublished } from './dead-letters.ts'

export interface AttemptStatements {
  /** `$1` event ids (array literal). Answers `KnownRow`s, none for absent events. */
  readonly classify: string
  /**
   * `$1` event ids (array literal). Answers id, fingerprint, and the result in an array if there is one, of the done
   * events. Names everything in full, because it also runs under the settings of the user's transactions.
   */
  readonly readDone: string
  /** `$1` `EventParameter`s with a token each, `$2` consumer id, `$3` wait for a row, ms. Answers the ids of the new rows. */
  readonly suspect: string
  /** `$1` event ids (array literal). Locks their rows, skips rows that others hold. Answers the ids of the locked rows. */
  readonly lockForCount: string
  /**
   * `$1` counts, `$2` consumer id; under the locks of `lockForCount`. An event without a verdict runs alone until it has
   * one, even if this attempt is given back.
   */
  readonly count: string
  /** `$1` burials; under the locks of `lockForCount`. */
  readonly buryCounted: string
}

/** Answer of `classify`. Ages and waits are by the server's clock. */
export interface KnownRow {
  readonly id: string
  readonly state: 'd' | 'r' | 'w' | 'x'
  readonly fingerprint: string
  readonly attempt: number
  readonly noVerdict: number
  readonly alone: boolean
  readonly parked: boolean
  readonly published: boolean
  readonly reason: string | null
  readonly remainingMs: number
  readonly ageMs: number
  readonly hasResult: boolean
  readonly result: unknown
}

/** Columns of `failed_events` that a dead letter sets; a parked event keeps the delivery it has. */
export const entombed = (values: string): string => `
  reason = ${values}.reason,
  error = coalesce(${values}.error, f.error),
  token = null,
  alone = false,
  ${unpublished},
  next_try = clock_timestamp(),
  last_failed_at = clock_timestamp(),
  source = case when f.parked then f.source else ${values}.source end,
  properties = case when f.parked then f.properties else decode(${values}.properties, 'base64') end,
  envelope = case when f.parked then f.envelope else decode(${values}.envelope, 'base64') end,
  headers = case when f.parked then f.headers else decode(${values}.headers, 'base64') end,
  body = case when f.parked then f.body else decode(${values}.body, 'base64') end,
  body_bytes = case when f.parked then f.body_bytes else ${values}."bodyBytes" end,
  body_parts = case when f.parked then f.body_parts else ${values}."bodyParts" end`

/** Columns of `json_to_recordset` for a delivery. */
export const DELIVERY: string = `source text, properties text, envelope text, headers text, body text, "bodyBytes" bigint,
  "bodyParts" integer`

/** Columns of `json_to_recordset` for a dead letter. */
export const BURIAL: string = `id uuid, token uuid, fingerprint bigint, attempt integer, reason text, error text, key text,
  tenant text, ${DELIVERY}`

const ARRAY = 'pg_catalog.json_build_array'
const EQUALS = 'operator(pg_catalog.=)'
const AGE_MS = `pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() operator(pg_catalog.-) p.processed_at) operator(pg_catalog.*) 1000)`

export function attemptStatements(schema: string): AttemptStatements {
  return {
    classify: `
select json_build_object(
  'id', p.event_id, 'state', p.state, 'fingerprint', p.fingerprint::text,
  'attempt', coalesce(f.attempt, 0), 'noVerdict', coalesce(f.no_verdict, 0), 'alone', coalesce(f.alone, false),
  'parked', coalesce(f.parked, false), 'published', coalesce(f.published, false), 'reason', f.reason,
  'remainingMs', case when ${isAhead('f.last_failed_at')} then 0
    else greatest(0, ceil(extract(epoch from coalesce(f.next_try, now()) - clock_timestamp()) * 1000)) end,
  'ageMs', floor(extract(epoch from clock_timestamp() - coalesce(f.counted_at, p.processed_at)) * 1000),
  'hasResult', e.event_id is not null, 'result', e.result
)::text as answer
from ${schema}.processed_events p
left join ${schema}.failed_events f on f.event_id = p.event_id
left join ${schema}.event_results e on e.event_id = p.event_id
where p.event_id = any($1::text::uuid[])`,

    readDone: `select ${ARRAY}(p.event_id, p.fingerprint::pg_catalog.text, (select ${ARRAY}(r.result) from ${schema}.event_results r where r.event_id ${EQUALS} p.event_id), ${AGE_MS})::pg_catalog.text as answer from ${schema}.processed_events p where p.event_id ${EQUALS} any ($1::pg_catalog.uuid[]) and p.state ${EQUALS} 'd'`,

    suspect: `
with bound as materialized (select set_config('lock_timeout', $3::text, true) as bound),
event as materialized (
  select e.* from bound,
    json_to_recordset($1::text::json) as e(id uuid, token uuid, fingerprint bigint, key text, tenant text)
  where bound is not null
),
fresh as (
  insert into ${schema}.processed_events (event_id, consumer_id, fingerprint, state)
  select id, $2::text::integer, fingerprint, 'r' from event order by id
  on conflict (event_id) do nothing
  returning event_id
),
noted as (
  insert into ${schema}.failed_events as f (event_id, consumer_id, attempt, token, counted_at, key, tenant)
  select id, $2::text::integer, 1, token, clock_timestamp(), key, tenant
  from event join fresh on event_id = id
  on conflict (event_id) do update set ${replaced('1')}
)
select event_id::text as answer from fresh`,

    lockForCount: `
select event_id::text as answer from ${schema}.processed_events
where event_id = any($1::text::uuid[]) order by event_id for no key update skip locked`,

    count: `
with event as materialized (
  select * from json_to_recordset($1::text::json)
    as e(id uuid, token uuid, attempt integer, key text, tenant text)
),
noted as (
  insert into ${schema}.failed_events as f
    (event_id, consumer_id, attempt, token, counted_at, key, tenant, alone)
  select id, $2::text::integer, attempt, token, clock_timestamp(), event.key, event.tenant, p.state = 'r'
  from event join ${schema}.processed_events p on p.event_id = event.id
  on conflict (event_id) do update set
    attempt = excluded.attempt, token = excluded.token, counted_at = excluded.counted_at,
    alone = f.alone or excluded.alone
)
update ${schema}.processed_events p set state = 'r' from event where p.event_id = event.id`,

    buryCounted: `
with event as materialized (select * from json_to_recordset($1::text::json) as e(${BURIAL})),
noted as (
  update ${schema}.failed_events f set ${entombed('event')} from event where f.event_id = event.id
)
update ${schema}.processed_events p set state = 'x' from event where p.event_id = event.id`,
  }
}

/** Overwrites a row that was left behind by an earlier event of the same id. */
export function replaced(attempt: string, parked = 'false'): string {
  return `attempt = ${attempt}, no_verdict = 0, defers = excluded.defers, token = excluded.token, counted_at = excluded.counted_at,
    next_try = excluded.next_try, first_failed_at = now(), last_failed_at = now(), parked = ${parked}, alone = false,
    ${unpublished}, discarded_at = null, reason = excluded.reason, error = excluded.error, key = excluded.key,
    tenant = excluded.tenant, source = excluded.source, properties = excluded.properties, envelope = excluded.envelope,
    headers = excluded.headers, body = excluded.body, body_bytes = excluded.body_bytes, body_parts = excluded.body_parts`
}
