import type { Pool } from 'pg'
import { TABLES } from './layout.ts'

/** Autovacuum starts when this share of the rows is dead, by its default. */
const DEAD = 0.2
const PAGES_PER_STEP = 4_096

/** The log that forgetting an event costs today: the delete by the sweep, and the vacuum that follows. */
export async function sweptBytes(pool: Pool): Promise<Readonly<Record<string, number>>> {
  await pool.query('checkpoint')
  const { rows } = await pool.query(
    `select pg_relation_size('${TABLES.full}')::float8 / current_setting('block_size')::int as pages`,
  )
  const last = Math.ceil(rows[0].pages * DEAD)
  const before = await logBytes(pool)
  let deleted = 0
  for (let page = 0; page < last; page += PAGES_PER_STEP) {
    const { rowCount } = await pool.query(
      `delete from ${TABLES.full} where ctid >= $1::text::tid and ctid < $2::text::tid`,
      [`(${page},0)`, `(${Math.min(last, page + PAGES_PER_STEP)},0)`],
    )
    deleted += rowCount ?? 0
  }
  const between = await logBytes(pool)
  await pool.query(`vacuum ${TABLES.full}`)
  const after = await logBytes(pool)
  return {
    'sweep: WAL bytes per deleted event': (between - before) / deleted,
    'vacuum: WAL bytes per deleted event': (after - between) / deleted,
  }
}

async function logBytes(pool: Pool): Promise<number> {
  const { rows } = await pool.query(`select (pg_current_wal_lsn() - '0/0')::float8 as bytes`)
  return rows[0].bytes
}
