import { statfs } from 'node:fs/promises'
import { tmpdir, totalmem } from 'node:os'
import { type PostgresServer, postgres } from '@onceward/testing/servers'
import { Pool } from 'pg'
import {
  askFilter,
  CLOSED,
  filterPages,
  type Layout,
  oneTable,
  partitioned,
  probe,
  TABLES,
} from '../layouts/layout.ts'
import { openBench, roundsOf } from '../layouts/rounds.ts'
import { sweptBytes } from '../layouts/sweep.ts'
import { createPartitions, createTables, growFull, type Index, touch } from '../layouts/tables.ts'
import { createEffects, DURABLE } from '../load/effects.ts'
import type { Benchmark } from '../runner/report.ts'
import type { Scale } from '../runner/scale.ts'

/** The number of remembered events. */
const SIZES = [1_000_000, 10_000_000, 50_000_000, 100_000_000]
/** Up to this size, other indexes of the one table are measured too. Their figures do not depend on the size. */
const INDEXES_UP_TO = 10_000_000

/** Disk space per event, of all layouts together and the log. */
const BYTES_PER_EVENT = 400
const MINUTE_MS = 60_000

/** PostgreSQL's own, and what its manual advises for a server of its own. */
const BUFFERS = { small: '128MB', large: `${Math.floor(totalmem() / 4 / 2 ** 20)}MB` }
type Buffers = keyof typeof BUFFERS

const SETTINGS = {
  ...DURABLE,
  max_wal_size: '16GB',
  checkpoint_timeout: '30min',
  autovacuum: 'off',
}

/** Today's table of remembered events beside others that would do its work, in plain SQL: what a claim costs in each. */
export async function layoutsBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: SETTINGS, native: true })
  const url = await server.createDatabase()
  const values: Record<string, number> = {}
  await setBuffers(server, 'large')
  await withPool(url, createTables)
  await withPool(url, createEffects)
  const endsAt = performance.now() + scale.minutes * MINUTE_MS
  let remembered = 0
  let fillMs = 0
  let roundsMs = 0
  for (const size of SIZES) {
    const lasts = remembered === 0 ? 0 : (fillMs * size) / remembered + roundsMs
    if (performance.now() + lasts > endsAt || !(await hasRoom(size * BYTES_PER_EVENT))) break
    const startedAt = performance.now()
    await withPool(url, (pool) => growFull(pool, { events: size, index: 'key' }))
    await withPool(url, (pool) => createPartitions(pool, size))
    const filledAt = performance.now()
    for (const [name, value] of Object.entries(await measureSize({ server, url, scale, size }))) {
      values[`${size / 1_000_000} M, ${name}`] = value
    }
    remembered = size
    fillMs = filledAt - startedAt
    roundsMs = performance.now() - filledAt
  }
  return { name: 'layouts', unit: 'events/s', values, ratios: {}, goals: [] }
}

interface Size {
  readonly server: PostgresServer
  readonly url: string
  readonly scale: Scale
  readonly size: number
}

async function measureSize(of: Size): Promise<Readonly<Record<string, number>>> {
  const { server, url, scale, size } = of
  const values: Record<string, number> = {}
  const measure = async (buffers: Buffers, layouts: readonly Layout[]): Promise<void> => {
    for (const [phase, figures] of await phases(url, { layouts, scale })) {
      for (const [name, value] of Object.entries(figures)) {
        values[`${buffers} buffers${phase}, ${name}`] = value
      }
    }
  }
  await measure('large', layoutsOf(size))
  await setBuffers(server, 'small')
  await measure('small', layoutsOf(size))
  await setBuffers(server, 'large')
  if (size <= INDEXES_UP_TO) {
    for (const [index, name] of OTHER_INDEXES) {
      await withPool(url, (pool) => growFull(pool, { events: size, index }))
      await measure('large', [oneTable(name, TABLES.full)])
    }
    await withPool(url, (pool) => growFull(pool, { events: size, index: 'key' }))
  }
  return { ...values, ...(await withPool(url, sweptBytes)) }
}

const OTHER_INDEXES: readonly (readonly [Index, string])[] = [
  ['hash8', 'index of 8 bytes'],
  ['hash', 'hash index'],
]

const layoutsOf = (size: number): readonly Layout[] => [
  oneTable('empty', TABLES.empty),
  oneTable('today', TABLES.full),
  oneTable('today compressed', TABLES.full, 'set wal_compression = on'),
  partitioned('1 probe', probe(CLOSED.slice(0, 1))),
  partitioned('3 probes', probe(CLOSED.slice(0, 3))),
  partitioned('7 probes', probe(CLOSED)),
  partitioned('filter in a table', askFilter(filterPages(size))),
  partitioned('filter in memory'),
]

/** Long after a checkpoint, and right after one. */
async function phases(
  url: string,
  { layouts, scale }: { readonly layouts: readonly Layout[]; readonly scale: Scale },
): Promise<readonly (readonly [string, Readonly<Record<string, number>>])[]> {
  return await withPool(url, async (admin) => {
    const bench = await openBench(url, admin)
    await admin.query('checkpoint')
    for (const table of new Set(layouts.map((layout) => layout.table))) await touch(admin, table)
    const usual = await roundsOf(bench, layouts, { ...scale, afterCheckpoint: false })
    const worst = await roundsOf(bench, layouts, { ...scale, afterCheckpoint: true })
    return [
      ['', usual],
      [' after a checkpoint', worst],
    ]
  })
}

async function withPool<Answer>(
  url: string,
  work: (pool: Pool) => Promise<Answer>,
): Promise<Answer> {
  const pool = new Pool({ connectionString: url })
  pool.on('error', () => undefined)
  try {
    return await work(pool)
  } finally {
    await pool.end()
  }
}

async function setBuffers(server: PostgresServer, buffers: Buffers): Promise<void> {
  await withPool(server.connection.url, (pool) =>
    pool.query(`alter system set shared_buffers = '${BUFFERS[buffers]}'`),
  )
  await server.kill('SIGINT')
  await server.restart()
}

async function hasRoom(bytes: number): Promise<boolean> {
  const { bavail, bsize } = await statfs(tmpdir())
  return bavail * bsize > bytes
}
