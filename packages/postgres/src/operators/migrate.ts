import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { messageOf, refuseUnknownNames, shown } from '@onceward/core/adapter'
import {
  askOnce,
  inTransaction,
  type PoolClientLike,
  type PoolLike,
  refuseNoPool,
} from '../client.ts'
import { isForbidden, isOnStandby, sqlState, toStoreError } from '../errors.ts'
import { SCHEMA_VERSION } from '../inbox/schema-version.ts'
import { refuseUnfitServer } from '../inbox/unfit-servers.ts'
import { refuseEncoding } from '../inbox/unfit-tables.ts'
import { MIGRATIONS, type Migration } from '../sql/index.ts'
import { LOCK_NOT_AVAILABLE } from '../sqlstates.ts'
import { DEFAULT_SCHEMA, quotedSchema } from '../statements/schema-name.ts'

/** Options of {@link migrate}. */
export interface MigrateOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
  /**
   * Makes the table of `postgresLeases` logged or unlogged. A crash of PostgreSQL empties an unlogged table. That is
   * harmless with an inbox; without one, processed events look new and run again. @defaultValue as it is, `logged` when new
   */
  readonly leases?: 'logged' | 'unlogged' | undefined
}

/** What {@link migrate} did. */
export interface Migrated {
  /** Names of the migrations applied now, in order; empty when the tables were up to date. */
  readonly applied: readonly string[]
  /** Version of the tables now. Greater than that of this code if a newer release has migrated them compatibly. */
  readonly version: number
}

/** Claims queue behind a waiting `alter table`. Meanwhile their events are deferred. */
const TABLE_WAIT_MS = 5_000

/**
 * Creates or updates the tables of onceward, in one transaction.
 *
 * Any number of processes may call it at once: they take turns on a lock that ends with the transaction (so it
 * works behind PgBouncer too), and the later ones find nothing to do.
 *
 * Tables of a newer release that this code can use are left as they are.
 *
 * A table that another transaction holds for longer than 5 seconds is given up, because consumers wait behind it.
 *
 * @throws {@link ConfigurationError} when the tables are too new for this code, or the role lacks rights;
 *   {@link StoreUnavailableError} when another transaction holds a table, or the server is a standby. Nothing was
 *   changed.
 *
 * @example
 * ```ts
 * import { migrate } from '@onceward/postgres'
 *
 * const { applied, version } = await migrate(pool)
 * ```
 */
export async function migrate(pool: PoolLike, options: MigrateOptions = {}): Promise<Migrated> {
  refuseNoPool('migrate', pool)
  refuseUnknownNames('migrate', options, { schema: true, leases: true })
  if (options.leases !== undefined && !['logged', 'unlogged'].includes(options.leases)) {
    throw new ConfigurationError(
      `Expected \`leases\` to be 'logged' or 'unlogged', got \`${shown(String(options.leases))}\`.`,
    )
  }
  const schema = options.schema ?? DEFAULT_SCHEMA
  const quoted = quotedSchema(schema)
  const work = async (client: PoolClientLike): Promise<Migrated> => {
    await prepare(client, schema, quoted)
    const { version, readableFrom } = await currentVersion(client, quoted)
    if (readableFrom > SCHEMA_VERSION) {
      throw new ConfigurationError(
        `The tables in schema ${quoted} have version ${version}, this code knows ${SCHEMA_VERSION}: update @onceward/postgres. The tables can be used from the code of version ${readableFrom} on.`,
      )
    }
    const missing = MIGRATIONS.filter((migration) => migration.version > version)
    for (const migration of missing) await apply(client, quoted, migration)
    await keepLeases(client, quoted, options.leases)
    return { applied: missing.map(({ name }) => name), version: Math.max(version, SCHEMA_VERSION) }
  }
  await refuseOtherServer(pool)
  return inTransaction(pool, work, { answerMs: undefined }).catch((error: unknown) => {
    throw explained(error, quoted)
  })
}

function explained(error: unknown, quoted: string): unknown {
  const cause = { cause: error }
  if (sqlState(error) === LOCK_NOT_AVAILABLE) {
    return new StoreUnavailableError(
      `Another transaction has held a table in schema ${quoted} for ${TABLE_WAIT_MS} ms (${messageOf(error)}): nothing was changed. Run it again when that transaction, the oldest in pg_stat_activity, has ended.`,
      cause,
    )
  }
  if (isOnStandby(error)) return toStoreError(error, 'migrating')
  if (!isForbidden(error)) return error
  return new ConfigurationError(
    `The database role may not migrate schema ${quoted} (${messageOf(error)}): run it as the owner of the tables, or, if no tables exist yet, as a role that may create them.`,
    cause,
  )
}

/** Before the transaction, because others may refuse the settings of one. A server that cannot be asked is reported by the transaction. */
async function refuseOtherServer(pool: PoolLike): Promise<void> {
  const answer = await askOnce(pool, 'select version() as version').catch(() => undefined)
  if (answer !== undefined) refuseUnfitServer(String(answer.rows[0]?.['version']))
}

async function prepare(client: PoolClientLike, schema: string, quoted: string): Promise<void> {
  // It waits for its turn and rewrites tables, which takes as long as it takes.
  await client.query('set local statement_timeout = 0')
  await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `onceward.migrate:${schema}`,
  ])
  await client.query(`set local lock_timeout = ${TABLE_WAIT_MS}`)
  const encodings = await client.query("select current_setting('server_encoding') as encoding")
  refuseEncoding(String(encodings.rows[0]?.['encoding']))
  // Checked first, because "if not exists" needs the right to create even if there is nothing to do.
  const { rows } = await client.query(
    'select to_regnamespace($1)::text as namespace, to_regclass($2)::text as migrations',
    [quoted, `${quoted}.migrations`],
  )
  if (rows[0]?.['namespace'] === null) await client.query(`create schema ${quoted}`)
  if (rows[0]?.['migrations'] !== null) return
  await client.query(migrationsTable(quoted))
}

const migrationsTable = (quoted: string): string => `create table ${quoted}.migrations (
    version integer primary key,
    name text not null,
    readable_from integer, -- the oldest version whose code can use the tables; null: this one
    applied_at timestamptz not null default now()
  )`

/** The SQL of one migration, with the row that records it, for tools that run SQL themselves. */
export interface MigrationSql {
  readonly version: number
  readonly name: string
  readonly readableFrom?: number | undefined
  readonly sql: string
}

/** What {@link migrate} would run on tables of version `after`; 0: no tables. Each must run in a transaction of its own. */
export function migrationSql(schema: string = DEFAULT_SCHEMA, after = 0): readonly MigrationSql[] {
  const quoted = quotedSchema(schema)
  return MIGRATIONS.filter(({ version }) => version > after).map((migration, index) => {
    const { version, name, readableFrom } = migration
    const before =
      after === 0 && index === 0
        ? `create schema if not exists ${quoted};\n${migrationsTable(quoted)};\n`
        : ''
    const record = `insert into ${quoted}.migrations (version, name, readable_from) values (${version}, '${name}', ${readableFrom ?? 'null'});`
    const sql = `${before}${sqlOf(migration, quoted).trim()}\n\n${record}\n`
    return { version, name, readableFrom, sql }
  })
}

const sqlOf = ({ sql }: Migration, quoted: string): string =>
  sql.replaceAll('$$', () => bodyQuote(quoted)).replaceAll(':"schema"', () => quoted)

/** What the bodies of functions stand between: not part of the schema's name, which stands in them. */
function bodyQuote(quoted: string): string {
  let quote = '$$'
  for (let tag = 'o'; quoted.includes(quote); tag += 'o') quote = `$${tag}$`
  return quote
}

async function currentVersion(
  client: PoolClientLike,
  quoted: string,
): Promise<{ readonly version: number; readonly readableFrom: number }> {
  const { rows } = await client.query(
    `select coalesce(max(version), 0)::text as version,
       coalesce(max(coalesce(readable_from, version)), 0)::text as readable_from
     from ${quoted}.migrations`,
  )
  return { version: Number(rows[0]?.['version']), readableFrom: Number(rows[0]?.['readable_from']) }
}

/** Rewrites the table, so it runs only if the setting changes. */
async function keepLeases(
  client: PoolClientLike,
  quoted: string,
  leases: MigrateOptions['leases'],
): Promise<void> {
  if (leases === undefined) return
  const { rows } = await client.query(
    'select relpersistence::text as kept from pg_class where oid = $1::regclass',
    [`${quoted}.leases`],
  )
  const isLogged = rows[0]?.['kept'] === 'p'
  if (isLogged !== (leases === 'logged'))
    await client.query(`alter table ${quoted}.leases set ${leases}`)
}

async function apply(client: PoolClientLike, quoted: string, migration: Migration): Promise<void> {
  await client.query(sqlOf(migration, quoted))
  await client.query(
    `insert into ${quoted}.migrations (version, name, readable_from) values ($1, $2, $3)`,
    [migration.version, migration.name, migration.readableFrom ?? null],
  )
}
