const MS = 1_000

/**
 * The messages of the outbox by destination. `oldestWaitingMs` is an instant of the server, as milliseconds since the
 * epoch, of the oldest that is neither dead nor delayed, and `isServed` says whether a relay that runs has the destination. Each part is read by one of the partial indexes: a million
 * payloads are not.
 *
 * @param schema - Quoted for SQL.
 */
export const outboxStatus = (schema: string): string => {
  const table = `${schema}.outbox_messages`
  const created = `(select m.created_at from ${table} m where m.position = first)`
  return `
select destination, coalesce(sum(n) filter (where state in ('q', 'h') or state = 'd' and is_due), 0) as waiting,
  coalesce(sum(n) filter (where state = 'd' and not is_due), 0) as delayed,
  coalesce(sum(n) filter (where state = 'w'), 0) as refused, coalesce(sum(n) filter (where state = 'x'), 0) as dead,
  floor(extract(epoch from min(coalesce(due, ${created})) filter (where state <> 'x' and is_due)) * ${MS})::float8 as "oldestWaitingMs",
  floor(extract(epoch from now()) * ${MS})::float8 as "nowMs",
  exists (select from ${schema}.outbox_leases l where l.until > clock_timestamp() and l.destination = parts.destination) as "isServed"
from (
  select destination, 'q' as state, true as is_due, null::timestamptz as due, count(*) as n, min(position) as first
  from ${table} where state = 'q' group by 1
  union all
  select destination, state::text, true, null, count(*), min(position) from ${table} where state in ('w', 'h') group by 1, 2
  union all
  select destination, 'd', due_at <= now(), min(due_at), count(*), null from ${table} where state = 'd' group by 1, 3
  union all
  select destination, 'x', true, null, count(*), null from ${table} where state = 'x' group by 1
) as parts group by 1 order by 1`
}
