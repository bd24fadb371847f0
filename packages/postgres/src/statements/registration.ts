import { changedTables } from './own-tables.ts'
import { isRemoved, REMOVE } from './removal.ts'
import { quotedSchema } from './schema-name.ts'

export interface RegistrationStatements {
  /**
   * Answers the version of the tables, the secret, the encoding, which tables are unlogged or not ordinary, and whether
   * `row_security` is off in sessions of this login although row-level security applies to it. Fails if the tables are
   * missing.
   */
  readonly readSettings: string
  /** Answers the name of the history of commits. */
  readonly readIdentity: string
  /** Bounds `isProven`: in a large table without a row of the consumer, all rows are read. */
  readonly boundLook: string
  /** `$1` consumer id. Answers whether it ever had an event, or an operator has acted on it. */
  readonly isProven: string
  /** `$1` name, `$2` dedup window in ms, `$3` fingerprint rule. Answers `Registered`. */
  readonly register: string
}

/** Answer of `register`. */
export interface Registered {
  readonly id: number
  /** The window in force: the longest of all running guards. */
  readonly dedupWindowMs: number
  readonly fingerprintRule: number
  /** The rule of the guard that registered before. Null for the first guard. */
  readonly formerRule: number | null
}

const LOOK_MS = 1_000

const TAKES_OVER =
  "($2::text::bigint >= c.dedup_window_ms or c.seen_at < now() - interval '1 hour')"

/**
 * A guard refreshes its registration while it runs, so a longer window of another guard stays until that guard has been
 * silent for an hour. Sweeping by the shorter window would let redeliveries of the other guard run again.
 */
export function registrationStatements(schema: string): RegistrationStatements {
  const refreshed = `
  fingerprint_rule = $3::text::smallint,
  dedup_window_ms = case when ${TAKES_OVER} then $2::text::bigint else c.dedup_window_ms end,
  seen_at = case when ${TAKES_OVER} or ${isRemoved('c')} then now() else c.seen_at end`
  const returning = 'returning c.id, c.dedup_window_ms, c.fingerprint_rule'
  const table = `'${schema.replaceAll("'", "''")}.processed_events'`
  return {
    readSettings: `
select (select max(version)::text from ${schema}.migrations) as version,
  (select max(coalesce(readable_from, version))::text from ${schema}.migrations) as readable_from, encode(secret, 'hex') as secret,
  (select reset_val = 'off' and row_security_active(${table}) from pg_settings where name = 'row_security')::text as hides_rows,
  current_setting('server_encoding') as encoding, version() as server, ${changedTables(schema)} as changed_tables
from ${schema}.settings`,
    // The timeline of the position where it writes now: pg_control_checkpoint() keeps the old one for minutes after a
    // promotion. The start time is part of it, because a crash may lose answered commits (synchronous_commit = off). The
    // database and the file of the table, because a server has many, and a truncated one has another. The epoch, because
    // rows can be deleted or restored without any of these.
    readIdentity: `
select concat_ws('.', (select system_identifier from pg_control_system()),
  left(pg_walfile_name(pg_current_wal_lsn()), 8),
  extract(epoch from pg_postmaster_start_time()),
  (select oid from pg_database where datname = current_database()),
  pg_relation_filenode(${table}),
  epoch) as answer
from ${schema}.settings`,
    // A consumer that is known is updated: an insert takes a value of the identity even where it finds a conflict, and
    // the identity ends after two billion starts.
    boundLook: `select set_config('statement_timeout', '${LOOK_MS}', true) as answer`,
    isProven: `
select (exists (select from ${schema}.processed_events where consumer_id = $1::text::integer)
  or exists (select from ${schema}.audit where consumer_id = $1::text::integer and action <> '${REMOVE}'))::text as answer`,
    register: `
with former as materialized (select fingerprint_rule from ${schema}.consumers where name = $1::text),
refreshed as (
  update ${schema}.consumers c set ${refreshed} where c.name = $1::text ${returning}
),
inserted as (
  insert into ${schema}.consumers as c (name, dedup_window_ms, fingerprint_rule)
  select $1::text, $2::text::bigint, $3::text::smallint where not exists (select from former)
  on conflict (name) do update set ${refreshed} ${returning}
)
select json_build_object(
  'id', id, 'dedupWindowMs', dedup_window_ms, 'fingerprintRule', fingerprint_rule,
  'formerRule', (select fingerprint_rule from former)
)::text as answer from (select * from refreshed union all select * from inserted) as registered`,
  }
}

/** The statement that names the history of commits, in the schema of this name. */
export const identityQuery = (schema?: string): string =>
  registrationStatements(quotedSchema(schema)).readIdentity
