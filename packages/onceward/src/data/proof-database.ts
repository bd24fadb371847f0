import { hostname } from 'node:os'
import { migrate } from '@onceward/postgres'
import { quotedSchema } from '@onceward/postgres/operator'
import type pg from 'pg'
import { usage } from '../failure.ts'
import { type Database, openDatabase } from './database.ts'
import { readTables, refusal } from './tables.ts'

/** The tables of onceward for a proof, and how they are left as they were. */
export interface ProofDatabase {
  /** Events of the proof that wait in the inbox for their next attempt. */
  waiting(): Promise<number>
  consumers(): Promise<readonly string[]>
  /** @param pids - The workers of the proof: a consumer with other workers is not of the proof. */
  remove(pids: readonly number[]): Promise<void>
}

export interface ProofDatabaseOptions {
  readonly url: string
  readonly schema: string
  /** Goes on where others have events. */
  readonly allowUsed: boolean
}

/**
 * Makes the tables if they are missing.
 *
 * @throws {@link Failure} for a database in which others have events, and for tables of another version.
 */
export async function prepareDatabase({
  allowUsed,
  schema,
  url,
}: ProofDatabaseOptions): Promise<ProofDatabase> {
  const database = openDatabase(url, schema)
  try {
    const tables = await database.read((query) => readTables(query, database))
    const made = tables.kind === 'missing' ? await makeTables(database) : undefined
    const refused = made === undefined ? refusal(tables, database) : undefined
    if (refused !== undefined) throw usage(refused)
    const before = await consumersIn(database)
    if (!allowUsed) await demandUnused(database)
    return {
      waiting: () => countWaiting(database, before),
      consumers: async () =>
        (await rowsOf(database.pool, `select name from ${database.quoted}.consumers`)).map(
          ({ name }) => String(name),
        ),
      remove: async (pids) => {
        await (made === undefined ? forgetConsumers(database, before, pids) : made.remove())
        await database[Symbol.asyncDispose]()
      },
    }
  } catch (error) {
    await database[Symbol.asyncDispose]()
    throw error
  }
}

interface Made {
  remove(): Promise<void>
}

/** What the schema has beside the tables of onceward stays. A schema that was not there is removed with all of it. */
async function makeTables({ pool, quoted, schema }: Database): Promise<Made> {
  const hadSchema = (await rowsOf(pool, 'select 1 from pg_namespace where nspname = $1', [schema]))
    .length
  const before = await objectsIn(pool, schema)
  await migrate(pool, { schema })
  const ours = (await objectsIn(pool, schema)).filter((each) => !before.includes(each))
  return {
    remove: async () => {
      if (hadSchema === 0) await pool.query(`drop schema if exists ${quoted} cascade`)
      else for (const each of ours) await pool.query(`drop ${each} cascade`)
    },
  }
}

/** Tables and functions, as DROP names them. */
async function objectsIn(pool: pg.Pool, schema: string): Promise<readonly string[]> {
  const tables = `select 'table if exists ' || c.oid::regclass as name from pg_class c
    where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p')`
  const routines = `select 'routine if exists ' || p.oid::regprocedure from pg_proc p
    where p.pronamespace = to_regnamespace($1)`
  const rows = await rowsOf(pool, `${tables} union all ${routines}`, [quotedSchema(schema)])
  return rows.map(({ name }) => String(name))
}

type Rows = readonly Readonly<Record<string, unknown>>[]

const rowsOf = async (pool: pg.Pool, sql: string, values: readonly unknown[] = []): Promise<Rows> =>
  (await pool.query(sql, [...values])).rows

async function consumersIn({ pool, quoted }: Database): Promise<readonly number[]> {
  const rows = await rowsOf(pool, `select id from ${quoted}.consumers`)
  return rows.map(({ id }) => Number(id))
}

/** Of others are events, dead letters, and messages of the outbox. */
async function demandUnused({ place, pool, quoted, schema }: Database): Promise<void> {
  const work = ['processed_events', 'failed_events', 'refused_messages', 'outbox_messages']
  for (const table of work) {
    if ((await rowsOf(pool, `select 1 from ${quoted}.${table} limit 1`)).length === 0) continue
    throw usage(
      `The table ${table} in schema "${schema}" of ${place} holds work of others. Prove in an empty database, or say that it may be used with --allow-used-database.`,
    )
  }
}

async function countWaiting(
  { pool, quoted }: Database,
  before: readonly number[],
): Promise<number> {
  const sql = `select count(*)::int as waiting from ${quoted}.failed_events
    where reason is null and consumer_id <> all ($1)`
  const [row] = await rowsOf(pool, sql, [before])
  return Number(row?.['waiting'] ?? 0)
}

/** The rows of consumers that were not there before, and that only workers of the proof have run. */
async function forgetConsumers(
  { pool, quoted, schema }: Database,
  before: readonly number[],
  pids: readonly number[],
): Promise<void> {
  const ours = `select id from ${quoted}.consumers as c where id <> all ($1) and not exists (
    select 1 from ${quoted}.workers as w where w.consumer_id = c.id and w.name <> all ($2))`
  const names = pids.map((pid) => `${hostname()}:${pid}`)
  const ids = (await rowsOf(pool, ours, [before, names])).map(({ id }) => id)
  const tables = `select c.oid::regclass::text as name from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attname = 'consumer_id' and not a.attisdropped
    where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p')`
  for (const { name } of await rowsOf(pool, tables, [quotedSchema(schema)])) {
    await pool.query(`delete from ${name} where consumer_id = any ($1)`, [ids])
  }
  await pool.query(`delete from ${quoted}.consumers where id = any ($1)`, [ids])
}
