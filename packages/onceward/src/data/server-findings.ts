import { bytes, duration } from '../render/units.ts'
import { ms, type Query } from './database.ts'
import { type Finding, when } from './finding.ts'

/** Settings and state of the server, as far as this login may see them. */
export interface ServerFacts {
  readonly versionNum: number
  readonly version: string
  readonly encoding: string
  readonly isStandby: boolean
  readonly nowMs: number
  readonly fsync: string
  readonly fullPageWrites: string
  readonly autovacuum: string
  readonly synchronousStandbys: string
  /** Of the sessions of this login; 0: none. */
  readonly idleInTransactionMs: number
  readonly transactionMs: number
  readonly connections: number
  readonly maxConnections: number
  readonly oldestTransactionMs: number
  readonly standbys: number
  /** Of the standby that is furthest behind; null if this login may not see it. */
  readonly lagBytes: number | null
  readonly lagMs: number | null
}

/** Without pg_monitor, rows of other logins say nothing but their database. */
export async function readServer(query: Query): Promise<ServerFacts> {
  const [facts] = await query<ServerFacts>(`
select current_setting('server_version_num')::integer as "versionNum", current_setting('server_version') as version,
  current_setting('server_encoding') as encoding, pg_is_in_recovery() as "isStandby", ${ms('clock_timestamp()')} as "nowMs",
  current_setting('fsync') as fsync, current_setting('full_page_writes') as "fullPageWrites",
  current_setting('autovacuum') as autovacuum, current_setting('synchronous_standby_names') as "synchronousStandbys",
  extract(epoch from current_setting('idle_in_transaction_session_timeout')::interval) * 1000 as "idleInTransactionMs",
  coalesce(extract(epoch from current_setting('transaction_timeout', true)::interval) * 1000, 0) as "transactionMs",
  (select count(*) from pg_stat_activity
   where datid is not null and coalesce(backend_type, 'client backend') = 'client backend') as connections,
  current_setting('max_connections')::integer as "maxConnections",
  (select coalesce(${ms('max(clock_timestamp() - xact_start)')}, 0) from pg_stat_activity
   where backend_type = 'client backend' and state like 'idle in transaction%') as "oldestTransactionMs",
  (select count(*) from pg_stat_replication) as standbys,
  (select max(pg_wal_lsn_diff(sent_lsn, replay_lsn)) from pg_stat_replication) as "lagBytes",
  (select ${ms('max(replay_lag)')} from pg_stat_replication) as "lagMs"`)
  if (facts === undefined) throw new Error('PostgreSQL answered no row')
  return facts
}

const OLDEST_VERSION = 140_000
/** The default `deadlineMs` of a handler is shorter. */
const SHORT_MS = 60_000
const LONG_TRANSACTION_MS = 600_000
const CLOCK_MS = 30_000
const FULL = 0.85

export function serverFindings(facts: ServerFacts, processMs: number): readonly Finding[] {
  const about = 'postgres'
  const clockMs = Math.abs(facts.nowMs - processMs)
  return [
    ...when(facts.versionNum < OLDEST_VERSION, {
      ...{ severity: 'error', about, finding: `The server is PostgreSQL ${facts.version}.` },
      remedy: 'Update it to PostgreSQL 14 or newer.',
    }),
    ...when(!['UTF8', 'SQL_ASCII'].includes(facts.encoding), {
      ...{ severity: 'error', about, finding: `The database has the encoding ${facts.encoding}.` },
      remedy: "Create one with `create database … encoding 'UTF8' template template0`.",
    }),
    ...when(facts.isStandby, {
      ...{ severity: 'error', about, finding: 'The server is a standby, so guards cannot write.' },
      remedy: 'Connect the guards to the primary, or promote this server.',
    }),
    ...when(facts.fsync === 'off', {
      ...{
        severity: 'error',
        about,
        finding: 'fsync is off: a crash of the machine loses commits.',
      },
      remedy: 'Run `alter system set fsync = on; select pg_reload_conf();`.',
    }),
    ...when(facts.fullPageWrites === 'off', {
      ...{ severity: 'warning', about },
      finding: 'full_page_writes is off: a crash of the machine may damage pages.',
      remedy: 'Run `alter system set full_page_writes = on; select pg_reload_conf();`.',
    }),
    ...when(clockMs > CLOCK_MS, {
      ...{ severity: clockMs > 3_600_000 ? 'error' : 'warning', about },
      finding: `The clocks of the database and of this machine differ by ${duration(clockMs)}. Guards whose clock differs by more than an hour sweep nothing.`,
      remedy: 'Set both clocks by NTP.',
    }),
    ...loadFindings(facts),
    ...replicationFindings(facts),
  ]
}

function loadFindings(facts: ServerFacts): readonly Finding[] {
  const about = 'postgres'
  const limits = [
    ['idle_in_transaction_session_timeout', facts.idleInTransactionMs],
    ['transaction_timeout', facts.transactionMs],
  ] as const
  return [
    ...limits.flatMap(([name, limitMs]) =>
      when(limitMs > 0 && limitMs < SHORT_MS, {
        ...{ severity: 'warning', about },
        finding: `${name} is ${duration(limitMs)}: the server ends the transaction of a handler that takes longer.`,
        remedy: `Set ${name} above \`deadlineMs\` of the guards: \`alter role … set ${name} = '…'\`.`,
      }),
    ),
    ...when(facts.connections > facts.maxConnections * FULL, {
      ...{ severity: 'warning', about },
      finding: `${facts.connections} of ${facts.maxConnections} connections are in use.`,
      remedy:
        'Lower `max` of the pools (each guard needs its `concurrency` plus two), use PgBouncer, or raise max_connections.',
    }),
    ...when(facts.oldestTransactionMs > LONG_TRANSACTION_MS, {
      ...{ severity: 'warning', about },
      finding: `A transaction has been idle for ${duration(facts.oldestTransactionMs)}: it keeps dead rows, and may hold the row of an event.`,
      remedy:
        "Find it with `select * from pg_stat_activity where state like 'idle in transaction%' order by xact_start`, and end it with `select pg_terminate_backend(pid)`.",
    }),
    ...when(facts.autovacuum === 'off', {
      ...{ severity: 'warning', about, finding: 'autovacuum is off: the tables only grow.' },
      remedy: 'Run `alter system set autovacuum = on; select pg_reload_conf();`.',
    }),
  ]
}

function replicationFindings(facts: ServerFacts): readonly Finding[] {
  const { standbys, synchronousStandbys, lagBytes, lagMs } = facts
  const lag =
    lagBytes === null
      ? 'This login may not see how far they are behind (grant pg_monitor).'
      : `They are up to ${bytes(lagBytes)}${lagMs === null ? '' : ` and ${duration(lagMs)}`} behind.`
  return when(standbys > 0 && synchronousStandbys === '', {
    ...{ severity: 'warning', about: 'postgres' },
    finding: `Standbys (${standbys}) copy asynchronously, so a failover loses the newest commits, with their effects. ${lag}`,
    remedy:
      'Set synchronous_standby_names if no effect may be lost. After a failover the events come again only while the broker still has them.',
  })
}
