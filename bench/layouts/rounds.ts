import { Pool, type PoolClient } from 'pg'
import { type Order, write, writeAll } from '../load/effects.ts'
import { type ProcessorMeter, processorMeter } from '../runner/processor-time.ts'
import { CONCURRENCY, inLanes, median } from '../runner/rounds.ts'
import { type Claim, type Layout, newClaim, TABLES } from './layout.ts'

/** How many events a transaction has, and how their effects are written. */
interface Mode {
  readonly name: string
  readonly events: number
  /** A multiple of the events of a round, so that its rounds last long enough. */
  readonly factor: number
  write(tx: PoolClient, orders: readonly Order[]): Promise<void>
}

/** As the guards `each` and `bulk` of the benchmark `guard` send them. */
const MODES: readonly Mode[] = [
  {
    ...{ name: 'each', events: 1, factor: 1 },
    write: async (tx, orders) => {
      for (const order of orders) await write(tx, order)
    },
  },
  { name: 'bulk', events: 100, factor: 5, write: writeAll },
]

/** Of one round, per event. */
interface Figures {
  readonly 'events/s': number
  readonly 'server µs': number
  readonly 'WAL bytes': number
  readonly 'full pages': number
  readonly 'buffers hit': number
  readonly 'buffers read': number
}

export interface Bench {
  readonly url: string
  readonly admin: Pool
  readonly meter: ProcessorMeter
}

export interface Phase {
  readonly rounds: number
  readonly events: number
  /** A checkpoint before each round, so that the log takes each page as a whole when it is first written. */
  readonly afterCheckpoint: boolean
}

export async function openBench(url: string, admin: Pool): Promise<Bench> {
  return { url, admin, meter: await processorMeter(admin) }
}

/** Claims in all layouts in turn. Figures by name: layout, mode, what. */
export async function roundsOf(
  bench: Bench,
  layouts: readonly Layout[],
  { rounds, events, afterCheckpoint }: Phase,
): Promise<Readonly<Record<string, number>>> {
  const values: Record<string, number> = {}
  for (const mode of MODES) {
    const all = new Map<Layout, Figures[]>(layouts.map((layout) => [layout, []]))
    for (let round = 0; round <= rounds; round++) {
      for (const layout of round % 2 === 0 ? layouts : layouts.toReversed()) {
        const figures = await roundOf(bench, layout, { mode, events, afterCheckpoint })
        // The first round warms up.
        if (round > 0) all.get(layout)?.push(figures)
      }
    }
    for (const [{ name }, figures] of all) {
      for (const what of Object.keys(figures[0] ?? {}) as (keyof Figures)[]) {
        const each = figures.map((one) => one[what])
        // Other programs on the machine add to the processor time, and nothing takes away from it.
        values[`${name}, ${mode.name}: ${what}`] =
          what === 'server µs' ? Math.min(...each) : median(each)
      }
    }
  }
  return values
}

interface Turn extends Omit<Phase, 'rounds'> {
  readonly mode: Mode
}

async function roundOf(
  { url, admin, meter }: Bench,
  layout: Layout,
  { mode, events: least, afterCheckpoint }: Turn,
): Promise<Figures> {
  if (layout.table === TABLES.empty) await admin.query(`truncate ${TABLES.empty}`)
  await admin.query('truncate effects')
  const events = least * mode.factor
  const pool = new Pool({ connectionString: url, max: CONCURRENCY })
  const clients = await Promise.all(Array.from({ length: CONCURRENCY }, () => pool.connect()))
  try {
    if (layout.setting !== undefined) for (const each of clients) await each.query(layout.setting)
    const run = runner(clients, layout, mode)
    // A session reads the catalogue when it first names a table.
    await run(slicesOf(CONCURRENCY * 2, mode))
    const slices = slicesOf(events / mode.events, mode)
    if (afterCheckpoint) await admin.query('checkpoint')
    const before = await statistics(admin, clients)
    const { server } = meter.read()
    const startedAt = performance.now()
    await run(slices)
    const tookMs = performance.now() - startedAt
    const took = meter.read().server - server
    const after = await statistics(admin, clients)
    const perEvent = (what: keyof Statistics): number => (after[what] - before[what]) / events
    return {
      'events/s': (events * 1_000) / tookMs,
      'server µs': took / events,
      'WAL bytes': perEvent('bytes'),
      'full pages': perEvent('pages'),
      'buffers hit': perEvent('hit'),
      'buffers read': perEvent('read'),
    }
  } finally {
    for (const each of clients) each.release()
    await pool.end()
  }
}

const slicesOf = (count: number, { events }: Mode): readonly (readonly Claim[])[] =>
  Array.from({ length: count }, () =>
    Array.from({ length: events }, newClaim).toSorted((a, b) => (a.id < b.id ? -1 : 1)),
  )

type Run = (slices: readonly (readonly Claim[])[]) => Promise<void>

/** Transactions as the guard sends them from a pool of its own: two round trips besides those of the handler. */
function runner(clients: readonly PoolClient[], layout: Layout, mode: Mode): Run {
  const idle = [...clients]
  return (slices) =>
    inLanes(slices, CONCURRENCY, async (slice) => {
      const tx = idle.pop() as PoolClient
      const answers: unknown = await tx.query(
        `begin isolation level read committed read write;${layout.claim(slice)};set local lock_timeout = '0'`,
      )
      const [, inserted] = answers as readonly { readonly rowCount: number }[]
      if (inserted?.rowCount !== slice.length) {
        throw new Error(`${layout.name}: ${inserted?.rowCount} of ${slice.length} events claimed`)
      }
      await mode.write(
        tx,
        slice.map(({ id }) => ({ orderId: id, cents: 1_999 })),
      )
      await tx.query('commit')
      idle.push(tx)
    })
}

interface Statistics {
  readonly bytes: number
  readonly pages: number
  readonly hit: number
  readonly read: number
}

/** Backends hand in their statistics once a second at most, unless they are asked to. */
async function statistics(admin: Pool, clients: readonly PoolClient[]): Promise<Statistics> {
  for (const client of clients) await client.query('select pg_stat_force_next_flush()')
  const { rows } = await admin.query(`
    select (pg_current_wal_insert_lsn() - '0/0')::float8 as bytes, wal_fpi::float8 as pages,
      blks_hit::float8 as hit, blks_read::float8 as read
    from pg_stat_wal, pg_stat_database where datname = current_database()`)
  return rows[0]
}
