import type { Pool, PoolClient } from 'pg'
import { CLOSED, FILTER, filterPage, filterPages, TABLES } from './layout.ts'

/** As `processed_events` in packages/postgres/src/sql/000001-inbox.ts. */
const COLUMNS = `event_id uuid not null, fingerprint bigint not null, processed_at timestamptz not null default now(),
  consumer_id integer not null, state "char" not null default 'd'`

/** How full inserts in random order leave the pages of an index, percent. */
const FILLED = 70
/** An index page holds some 200 events, so that this many inserts touch nearly every page. */
const TOUCHING = 1 / 20
/** Closed partitions are smaller than they would be, to save time. Their probes cost no more than real ones. */
const MOST_CLOSED = 500_000
const PARTITIONS = 8

/** What keeps an event unique. `TABLE` stands for the table. */
const INDEXES = {
  key: `create unique index TABLE_key on TABLE (event_id) with (fillfactor = ${FILLED})`,
  hash8: `create unique index TABLE_key on TABLE (uuid_hash_extended(event_id, 0)) with (fillfactor = ${FILLED})`,
  hash: 'alter table TABLE add constraint TABLE_key exclude using hash (event_id with =)',
}

export type Index = keyof typeof INDEXES

export async function createTables(pool: Pool): Promise<void> {
  await pool.query(`create table ${TABLES.empty} (${COLUMNS})`)
  await build(pool, TABLES.empty, 'key')
  await pool.query(`create table ${TABLES.full} (${COLUMNS})`)
  await pool.query(
    `create table ${TABLES.partitions} (generation integer not null, ${COLUMNS}) partition by list (generation)`,
  )
}

/** Fills the one table up with events of random ids, and gives it an index. */
export async function growFull(
  pool: Pool,
  { events, index }: { readonly events: number; readonly index: Index },
): Promise<void> {
  const { full } = TABLES
  await bulk(pool, async (connection) => {
    await connection.query(`alter table ${full} drop constraint if exists ${full}_key`)
    await connection.query(`drop index if exists ${full}_key`)
    const { rows } = await connection.query(`select count(*)::float8 as events from ${full}`)
    const missing = events - rows[0].events
    if (missing > 0) await insert(connection, full, missing)
    await build(connection, full, index)
    await connection.query(`vacuum (freeze, analyze) ${full}`)
  })
}

/** Makes the partitions for this many events, and the filter of the closed ones. The current one is half full. */
export async function createPartitions(pool: Pool, events: number): Promise<void> {
  const each = Math.floor(events / PARTITIONS)
  await bulk(pool, async (connection) => {
    for (const table of CLOSED)
      await createPartition(connection, table, Math.min(each, MOST_CLOSED))
    await createPartition(connection, TABLES.current, Math.floor(each / 2))
    await connection.query(
      `alter table ${TABLES.partitions} attach partition ${TABLES.current} for values in (8)`,
    )
    await connection.query(`drop table if exists ${FILTER.table}`)
    await connection.query(`create table ${FILTER.table} (bits bytea not null)`)
    // As it is: compressed or moved elsewhere, a page would cost more to read.
    await connection.query(`alter table ${FILTER.table} alter column bits set storage plain`)
    for (let page = 0; page < filterPages(events); page++) {
      await connection.query(`insert into ${FILTER.table} values ($1)`, [filterPage()])
    }
    await connection.query(`vacuum (freeze, analyze) ${FILTER.table}`)
  })
}

/** Writes to nearly every page of the index, as happens long after a checkpoint. */
export async function touch(pool: Pool, table: string): Promise<void> {
  const { rows } = await pool.query(
    `select greatest(reltuples, 0)::float8 as events from pg_class where oid = $1::regclass`,
    [table],
  )
  await bulk(pool, (connection) => insert(connection, table, Math.ceil(rows[0].events * TOUCHING)))
}

async function createPartition(
  connection: PoolClient,
  table: string,
  events: number,
): Promise<void> {
  await connection.query(`drop table if exists ${table}`)
  await connection.query(
    `create table ${table} (generation integer not null default 8, ${COLUMNS})`,
  )
  await insert(connection, table, events)
  await build(connection, table, 'key')
  await connection.query(`vacuum (freeze, analyze) ${table}`)
}

async function build(connection: Pool | PoolClient, table: string, index: Index): Promise<void> {
  await connection.query(INDEXES[index].replaceAll('TABLE', table))
  // Pages that split from now on are filled as in an index that nobody built.
  if (index !== 'hash') await connection.query(`alter index ${table}_key reset (fillfactor)`)
}

async function insert(connection: PoolClient, table: string, events: number): Promise<void> {
  await connection.query(
    `insert into ${table} (event_id, fingerprint, consumer_id)
     select gen_random_uuid(), i, 1 from generate_series(1, $1::int) i`,
    [events],
  )
}

/** The connection is closed, because its settings were changed. */
async function bulk(pool: Pool, work: (connection: PoolClient) => Promise<void>): Promise<void> {
  const connection = await pool.connect()
  try {
    await connection.query(`set synchronous_commit = off; set maintenance_work_mem = '1GB'`)
    await work(connection)
  } finally {
    connection.release(true)
  }
}
