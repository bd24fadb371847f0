/** `$1` of each statement is a JSON array with one row for each event. */
export interface LeaseStatements {
  /** Answers a `ClaimResult` for each, in order. */
  readonly claimLeases: string
  /** For owners. Rows of `{ id, owner, … }`, each event once. Answers the ids of the events that were held. */
  readonly renewLeases: string
  readonly completeLeases: string
  readonly failLeases: string
  readonly releaseLeases: string
  readonly buryLeases: string
  /** With an inbox: deletes the row when its event has ended. */
  readonly dropLeases: string
  /** For operators. Rows of `{ id, keepMs }`, each event once. Answers the ids of the changed events. */
  readonly replayLeases: string
  readonly forgetLeases: string
  /** Deletes some expired rows. Answers how many; answers nothing while another process sweeps. */
  readonly sweepLeases: string
  /** Answers whether a crash of PostgreSQL empties the table. Fails if the table is missing. */
  readonly areLeasesUnlogged: string
}

export function leaseStatements(schema: string): LeaseStatements {
  const literal = schema.replaceAll("'", "''")
  /** Locks the rows that this owner holds, expired or not, in the order of the ids. */
  const mine = (columns: string): string => `
with asked as (
  select (a ->> 'id')::uuid as event_id, a ->> 'owner' as owner${columns}
  from json_array_elements($1::text::json) a
),
mine as materialized (
  select l.event_id from ${schema}.leases l join asked a on a.event_id = l.event_id
  where l.state = 'p' and l.owner = a.owner
  order by l.event_id for update of l
)`
  const change = (columns: string, set: string): string => `${mine(columns)}
update ${schema}.leases l set ${set}
from mine join asked a on a.event_id = mine.event_id
where l.event_id = mine.event_id
returning l.event_id::text as answer`
  /** Locks rows in any state, in the order of their ids. */
  const known = (where: string): string => `
with asked as (
  select (a ->> 'id')::uuid as event_id, (a ->> 'keepMs')::float8 * interval '1 millisecond' as span
  from json_array_elements($1::text::json) a
),
known as materialized (
  select l.event_id, a.span from ${schema}.leases l join asked a on a.event_id = l.event_id
  where l.forget_at > clock_timestamp() and ${where}
  order by l.event_id for update of l
)`
  const ms = (name: string): string =>
    `, (a ->> '${name}')::float8 * interval '1 millisecond' as span`
  /** The row is forgotten as long after the new end as it was to be after the old one. */
  const until =
    'ends_at = clock_timestamp() + a.span, forget_at = l.forget_at + (clock_timestamp() + a.span - l.ends_at)'
  const isTakeover = "l.taken = 'takeover'"
  const isUnknownAgain = '(l.attempt <= 1 and not l.parked)'

  return {
    claimLeases: `
select c.answer::text as answer from ${schema}.claim_leases($1::text::json) c order by c.place`,
    renewLeases: change(ms('leaseMs'), until),
    completeLeases: change(
      `${ms('rememberMs')}, (a ->> 'result')::json as result`,
      "state = 'd', result = a.result, forget_at = clock_timestamp() + a.span",
    ),
    failLeases: change(ms('delayMs'), `state = 'w', ${until}`),
    releaseLeases: `${mine('')},
gone as (
  delete from ${schema}.leases l using mine
  where l.event_id = mine.event_id and ${isUnknownAgain}
  returning l.event_id
),
kept as (
  update ${schema}.leases l
  -- As before a takeover, so the next claim is one again.
  set state = case when ${isTakeover} then 'p'::"char" else 'w' end, owner = case when ${isTakeover} then '-' else l.owner end,
    ends_at = least(l.ends_at, clock_timestamp()), attempt = greatest(0, l.attempt - 1)
  from mine where l.event_id = mine.event_id and not ${isUnknownAgain}
  returning l.event_id
)
select event_id::text as answer from gone union all select event_id::text from kept`,
    buryLeases: change(
      `${ms('rememberMs')}, a ->> 'reason' as reason`,
      "state = 'x', reason = a.reason, forget_at = clock_timestamp() + a.span",
    ),
    dropLeases: `${mine('')}
delete from ${schema}.leases l using mine where l.event_id = mine.event_id
returning l.event_id::text as answer`,
    replayLeases: `${known("l.state = 'x'")}
update ${schema}.leases l
set state = 'w', ends_at = clock_timestamp(), forget_at = clock_timestamp() + known.span, attempt = 0,
  parked = true, reason = null
from known where l.event_id = known.event_id
returning l.event_id::text as answer`,
    forgetLeases: `${known('true')}
delete from ${schema}.leases l using known where l.event_id = known.event_id
returning l.event_id::text as answer`,
    sweepLeases: `
with turn as materialized (
  select pg_try_advisory_xact_lock(hashtextextended('onceward.leases:${literal}', 0)) as mine
),
old as materialized (
  select l.event_id from ${schema}.leases l
  where (select mine from turn) and l.forget_at < now()
  order by l.forget_at limit 1000 for update skip locked
),
gone as (delete from ${schema}.leases l using old where l.event_id = old.event_id returning 1)
select count(*)::text as answer from gone`,
    areLeasesUnlogged: `
select (relpersistence = 'u')::text as answer from pg_class where oid = '${literal}.leases'::regclass`,
  }
}
