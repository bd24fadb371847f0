import { DELIVERY, replaced } from './attempts.ts'

/** Events that are parked as they come, so that the poller of a guard runs them. */
export interface ParkingStatements {
  /**
   * `$1` events with their deliveries, `$2` consumer id, `$3` wait for a row, ms. Answers the ids of the new rows, due
   * now. A row that is committed is not waited for: a run that is in progress may hold it for long.
   */
  readonly park: string
  /**
   * As `park`, for events that wait or run without a stored delivery. `stored`: the fingerprint that the row had when it
   * was read. Answers the ids of the rows that got the delivery.
   */
  readonly parkKnown: string
  /** `$1` event id. The body of the event is stored in parts now. */
  readonly parkWhole: string
}

const EVENT = `id uuid, fingerprint bigint, stored bigint, key text, tenant text, ${DELIVERY}`
/** A body in parts is written after its row, and the parts of a parked event are never written. */
const isWhole = 'event."bodyParts" = 0'
const COLUMNS = 'source, properties, envelope, headers, body, body_bytes, body_parts'
const VALUES = `event.source, decode(event.properties, 'base64'), decode(event.envelope, 'base64'),
  decode(event.headers, 'base64'), decode(event.body, 'base64'), event."bodyBytes", event."bodyParts"`

export function parkingStatements(schema: string): ParkingStatements {
  const asked = `
with bound as materialized (select set_config('lock_timeout', $3::text, true) as bound),
event as materialized (
  select e.* from bound, json_to_recordset($1::text::json) as e(${EVENT}) where bound is not null
)`
  return {
    park: `${asked},
fresh as (
  insert into ${schema}.processed_events (event_id, consumer_id, fingerprint, state)
  select id, $2::text::integer, fingerprint, 'w' from event
  where not exists (select from ${schema}.processed_events p where p.event_id = event.id)
  order by id
  on conflict (event_id) do nothing
  returning event_id
),
noted as (
  insert into ${schema}.failed_events as f (event_id, consumer_id, attempt, parked, key, tenant, ${COLUMNS})
  select id, $2::text::integer, 0, ${isWhole}, event.key, event.tenant, ${VALUES}
  from event join fresh on event_id = id
  on conflict (event_id) do update set ${replaced('0', 'excluded.parked')}
)
select event_id::text as answer from fresh`,

    parkKnown: `${asked},
locked as materialized (
  select p.event_id from ${schema}.processed_events p join event on p.event_id = event.id
  where p.state in ('r', 'w') and p.consumer_id = $2::text::integer and p.fingerprint = event.stored
  order by p.event_id for update of p
)
update ${schema}.failed_events f set parked = ${isWhole}, (${COLUMNS}) = row(${VALUES})
from event join locked on locked.event_id = event.id
where f.event_id = event.id and not f.parked
returning f.event_id::text as answer`,

    parkWhole: `
update ${schema}.failed_events set parked = true where event_id = $1::text::uuid`,
  }
}
