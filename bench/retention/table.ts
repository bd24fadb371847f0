import type { Pool } from 'pg'

const TABLE = 'onceward.processed_events'
const KEY = 'processed_events_pkey'

/** How full inserts in random order leave the pages of an index, percent. */
const FILLED = 70

/** With this, one row of ten is older than the window of 15 days: what a daily sweep finds. */
const OLDEST_DAYS = 16.5

const INSERT = `insert into ${TABLE} (event_id, fingerprint, processed_at, consumer_id)
  select gen_random_uuid(), i, now() - random() * $2 * interval '1 day', (select id from onceward.consumers)
  from generate_series(1, $1::int) i`

const ROWS_PER_INSERT = 1_000_000

/** Inserts processed events with random ids. */
export async function fill(connection: Pick<Pool, 'query'>, events: number): Promise<void> {
  for (let left = events; left > 0; left -= ROWS_PER_INSERT) {
    await connection.query(INSERT, [Math.min(left, ROWS_PER_INSERT), OLDEST_DAYS])
  }
}

/**
 * Fills the table with processed events and leaves it as if they had come one by one: the index is built at once,
 * with its pages as full as random inserts leave them, and the table is vacuumed.
 */
export async function fillAsSwept(pool: Pool, events: number): Promise<void> {
  const connection = await pool.connect()
  try {
    await connection.query(`set synchronous_commit = off; set maintenance_work_mem = '1GB'`)
    await connection.query(`alter table ${TABLE} drop constraint ${KEY}`)
    await fill(connection, events)
    await connection.query(
      `alter table ${TABLE} add constraint ${KEY} primary key (event_id) with (fillfactor = ${FILLED})`,
    )
    await connection.query(`alter index onceward.${KEY} reset (fillfactor)`)
    await connection.query(`vacuum (freeze, analyze) ${TABLE}`)
    await connection.query('checkpoint')
  } finally {
    // The connection is closed, because its settings were changed.
    connection.release(true)
  }
}

export async function indexBytes(pool: Pool): Promise<number> {
  const { rows } = await pool.query(`select pg_relation_size('onceward.${KEY}')::float8 as bytes`)
  return rows[0].bytes
}

/** Bytes written to the log so far. */
export async function logBytes(pool: Pool): Promise<number> {
  const { rows } = await pool.query(`select (pg_current_wal_lsn() - '0/0')::float8 as bytes`)
  return rows[0].bytes
}
