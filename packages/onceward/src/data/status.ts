import { isRemoved, OWN_TABLES } from '@onceward/postgres/operator'
import { type Database, ms, type Query } from './database.ts'
import { counts, type DeadLetterCount } from './dead-letters.ts'
import { type OutboxStatus, readOutbox } from './outbox.ts'
import { type ConsumerWorkers, readWorkers } from './workers.ts'

/** One consumer, as PostgreSQL knows it. */
export interface ConsumerStatus extends ConsumerWorkers {
  readonly id: number
  readonly name: string
  readonly dedupWindowMs: number
  /** When a guard of it last registered; a running guard does so all the time. */
  readonly seenAtMs: number
  readonly hasPlace: boolean
  /** Null: it is not paused. */
  readonly paused: PausedStatus | null
  /** Counted runs without a recorded result. A first run of a clean event is not counted. */
  readonly inHand: number
  readonly oldestInHandMs: number | null
  /** Events that wait for their next attempt at the broker. */
  readonly waiting: number
  /** Events that wait in PostgreSQL: replays, and messages that no broker has. */
  readonly parked: number
  readonly nextTryMs: number | null
  readonly oldestWaitingMs: number | null
  readonly overdueMs: number
  /** Dead letters that wait to be published: the consumer has a dead-letter place, and it has not taken them yet. */
  readonly unpublished: number
  readonly oldestUnpublishedMs: number | null
  /** Those of them that have waited for more than 15 minutes. */
  readonly unpublishedLate: number
  /** Events whose effect was committed in the last minute and the last hour. */
  readonly doneMinute: number
  readonly doneHour: number
  readonly failedHour: number
  readonly dead: readonly DeadLetterCount[]
}

/** A pause that is in force. */
export interface PausedStatus {
  /** `operator`: from outside. `handler`: a handler has called `pauseFor`. `guard`: the guard itself. */
  readonly source: 'operator' | 'handler' | 'guard'
  readonly by: string | null
  readonly why: string | null
  readonly sinceMs: number
  /** Null: until somebody resumes it. */
  readonly untilMs: number | null
}

export interface TableStatus {
  readonly name: string
  readonly rows: number
  readonly bytes: number
  /** Since the statistics of the server were reset. */
  readonly inserted: number
  readonly updated: number
  readonly deleted: number
  readonly deadRows: number
  readonly vacuumedAtMs: number | null
}

export interface Status {
  readonly nowMs: number
  readonly version: number
  readonly sweptAtMs: number | null
  readonly consumers: readonly ConsumerStatus[]
  readonly tables: readonly TableStatus[]
  /** Running leases in PostgreSQL; null if this login may not read them. */
  readonly leases: number | null
  /** By destination; null if this login may not read it. */
  readonly outbox: readonly OutboxStatus[] | null
  /** False if the table was too large to be read whole: rates are then a lower bound. */
  readonly ratesAreWhole: boolean
}

export async function readStatus(
  query: Query,
  database: Pick<Database, 'quoted'>,
  rates?: RecentMinutes,
): Promise<Status> {
  const { quoted } = database
  const [common] = await query<
    Pick<Status, 'nowMs' | 'version' | 'sweptAtMs'> & { readonly mayLease: boolean }
  >(`select ${ms('now()')} as "nowMs", (select max(version) from ${quoted}.migrations) as version,
      ${ms('s.swept_at')} as "sweptAtMs", has_table_privilege('${quoted.replaceAll("'", "''")}.leases', 'select') as "mayLease"
     from (select 1) as one left join ${settingsOf(quoted)} on true`)
  const { nowMs = Date.now(), version = 0, sweptAtMs = null, mayLease = false } = common ?? {}
  const dead = await counts(query, database)
  const { minutes, isWhole } = rates ?? (await recentMinutes(query, database))
  const workersOf = await readWorkers(query, database)
  const consumers = await query<ConsumerRow>(consumersSql(quoted))
  return {
    ...{ nowMs, version, sweptAtMs, ratesAreWhole: isWhole },
    consumers: consumers.map(({ workerEndedAtMs, ...consumer }) => {
      const done = minutes.filter(({ consumerId }) => consumerId === consumer.id)
      return {
        ...consumer,
        ...workersOf({ ...consumer, workerEndedAtMs }, nowMs),
        doneMinute: total(done.filter(({ age }) => age === 0)),
        doneHour: total(done),
        dead: dead.filter(({ consumer: name }) => name === consumer.name),
      }
    }),
    tables: await query<TableStatus>(tablesSql(quoted)),
    outbox: await readOutbox(query, database),
    leases: mayLease ? await countLeases(query, quoted) : null,
  }
}

type ConsumerRow = Omit<
  ConsumerStatus,
  'doneMinute' | 'doneHour' | 'dead' | keyof ConsumerWorkers
> & { readonly workerEndedAtMs: number | null }

const total = (rows: readonly { readonly count: number }[]): number =>
  rows.reduce((sum, { count }) => sum + count, 0)

/** A login without rights on `settings` sees no time of a sweep. */
const settingsOf = (quoted: string): string => `(select swept_at from ${quoted}.settings) as s`

async function countLeases(query: Query, quoted: string): Promise<number> {
  const [row] = await query<{ readonly count: number }>(
    `select count(*) as count from ${quoted}.leases where state = 'p' and ends_at > clock_timestamp()`,
  )
  return row?.count ?? 0
}

/** Every consumer that has registered and was not removed since, also one without trouble. */
export async function consumerNames(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<readonly string[]> {
  const rows = await query<{ readonly name: string }>(
    `select name from ${quoted}.consumers c where not ${isRemoved('c')} order by name`,
  )
  return rows.map(({ name }) => name)
}

/** Events that wait for their next attempt, at the broker or here. */
export async function countWaiting(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<number> {
  const [row] = await query<{ readonly count: number }>(
    `select count(*) as count from ${quoted}.failed_events f
     join ${quoted}.processed_events p on p.event_id = f.event_id
     join ${quoted}.consumers c on c.id = f.consumer_id
     where p.state = 'w' and f.reason is null and not ${isRemoved('c')}`,
  )
  return row?.count ?? 0
}

/** One age that every consumer's rows are grouped by: whole minutes before now. */
export interface Minute {
  readonly consumerId: number
  readonly age: number
  readonly count: number
}

export interface RecentMinutes {
  readonly minutes: readonly Minute[]
  /** As {@link Status.ratesAreWhole}. */
  readonly isWhole: boolean
}

/**
 * Failures of the last hour, each event at its last one. An event that has succeeded since has no row any more, so these
 * are the failures that still matter. Both tables are small.
 */
export function failedMinutes(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<readonly Minute[]> {
  const of = (table: string): string =>
    `select consumer_id, last_failed_at from ${quoted}.${table} where last_failed_at > now() - interval '1 hour'`
  return query<Minute>(
    `select consumer_id as "consumerId", greatest(0, floor(extract(epoch from now() - last_failed_at) / 60))::integer as age,
       count(*) as count
     from (${of('failed_events')} and (error is not null or reason is not null) union all ${of('refused_messages')}) as failures
     group by 1, 2`,
  )
}

/**
 * A table of up to 64 MB is read whole. In a larger one rows of the last hour are at its end, or where the sweep has made
 * room, so only those pages are read: there is no index on the time, which would cost every event a write.
 */
const PAGES = 8_192

export async function recentMinutes(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  mostPages: number = PAGES,
): Promise<RecentMinutes> {
  const [size] = await query<{ readonly pages: number; readonly cursor: number }>(
    `select pg_relation_size('${quoted.replaceAll("'", "''")}.processed_events') / current_setting('block_size')::bigint as pages,
       sweep_cursor as cursor from ${quoted}.settings`,
  )
  const { pages = 0, cursor = 0 } = size ?? {}
  const isWhole = pages <= mostPages
  const half = Math.ceil(mostPages / 2)
  const tail = Math.max(0, pages - half)
  const swept = [Math.max(0, Math.min(cursor, tail) - half), Math.min(cursor, tail)]
  const where = isWhole
    ? ''
    : `and (ctid >= '(${tail},0)' or ctid >= '(${swept[0]},0)' and ctid < '(${swept[1]},0)')`
  const minutes = await query<Minute>(
    `select consumer_id as "consumerId", floor(extract(epoch from now() - processed_at) / 60)::integer as age, count(*) as count
     from ${quoted}.processed_events
     where state = 'd' and processed_at > now() - interval '1 hour' ${where} group by 1, 2`,
  )
  return { minutes, isWhole }
}

const unpublished = (condition: string, row: string): string => `
    count(*) filter (where ${condition}) as unpublished,
    ${ms(`min(${row}.last_failed_at) filter (where ${condition})`)} as "oldestUnpublishedMs",
    count(*) filter (where ${condition} and ${row}.last_failed_at < now() - interval '15 minutes') as "unpublishedLate"`

const consumersSql = (quoted: string): string => `
select c.id, c.name, c.dedup_window_ms as "dedupWindowMs", ${ms('c.seen_at')} as "seenAtMs",
  ${ms('c.worker_ended_at')} as "workerEndedAtMs", c.has_place as "hasPlace",
  case when c.paused_at is not null and (c.paused_until is null or c.paused_until > now()) then json_build_object(
    'source', c.pause_source, 'by', c.paused_by, 'why', c.paused_why, 'sinceMs', ${ms('c.paused_at')},
    'untilMs', ${ms('c.paused_until')}) end as paused,
  coalesce(t."inHand", 0) as "inHand", t."oldestInHandMs", coalesce(t.waiting, 0) as waiting,
  coalesce(t.parked, 0) + coalesce(r.parked, 0) as parked, t."nextTryMs", t."oldestWaitingMs",
  coalesce(t."overdueMs", 0) as "overdueMs", coalesce(t.failed, 0) as "failedHour",
  case when c.has_place then coalesce(t.unpublished, 0) + coalesce(r.unpublished, 0) else 0 end as unpublished,
  case when c.has_place then least(t."oldestUnpublishedMs", r."oldestUnpublishedMs") end as "oldestUnpublishedMs",
  case when c.has_place then coalesce(t."unpublishedLate", 0) + coalesce(r."unpublishedLate", 0) else 0 end as "unpublishedLate"
from ${quoted}.consumers c
left join (
  select f.consumer_id,
    count(*) filter (where p.state = 'r') as "inHand", ${ms("min(f.counted_at) filter (where p.state = 'r')")} as "oldestInHandMs",
    count(*) filter (where p.state = 'w' and not f.parked) as waiting,
    count(*) filter (where p.state = 'w' and f.parked) as parked,
    ${ms("min(f.next_try) filter (where p.state = 'w')")} as "nextTryMs",
    ${ms("min(f.first_failed_at) filter (where p.state = 'w')")} as "oldestWaitingMs",
    ${ms("max(now() - f.next_try) filter (where p.state = 'w' and f.parked and f.next_try < now())")} as "overdueMs",
    count(*) filter (where f.last_failed_at > now() - interval '1 hour' and f.error is not null and p.state <> 'd') as failed,
    ${unpublished("p.state = 'x' and f.reason is not null and not f.published", 'f')}
  from ${quoted}.failed_events f join ${quoted}.processed_events p on p.event_id = f.event_id group by 1
) t on t.consumer_id = c.id
left join (
  select consumer_id, count(*) filter (where replay and parked) as parked,
    ${unpublished('not replay and not published', 'refused_messages')}
  from ${quoted}.refused_messages group by 1
) r on r.consumer_id = c.id
where not ${isRemoved('c')}
order by c.name`

const tablesSql = (quoted: string): string => `
select c.relname as name, greatest(c.reltuples, s.n_live_tup, 0)::float8 as rows, pg_total_relation_size(c.oid) as bytes,
  s.n_tup_ins as inserted, s.n_tup_upd as updated, s.n_tup_del as deleted, s.n_dead_tup as "deadRows",
  ${ms('greatest(s.last_vacuum, s.last_autovacuum)')} as "vacuumedAtMs"
from pg_class c join pg_stat_all_tables s on s.relid = c.oid
where c.relnamespace = to_regnamespace('${quoted.replaceAll("'", "''")}') and c.relkind = 'r'
  and c.relname in (${OWN_TABLES})
order by pg_total_relation_size(c.oid) desc, c.relname`
