import type { Delivery } from '@onceward/core'
import { toDelivery } from '../load/effects.ts'
import {
  alternate,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'
import { settle } from '../scenarios/guard.ts'
import { logBytes } from './table.ts'
import type { Testbed } from './testbed.ts'

const BATCH = 100
/** A multiple of the events of a round, because batches are fast. */
const FACTOR = 5

/** The figures of one contestant, one for each round. The first round warms up. */
class Notes {
  readonly #figures = new Map<string, number[]>()

  note(figures: Readonly<Record<string, number>>): void {
    for (const [name, value] of Object.entries(figures)) {
      this.#figures.set(name, [...(this.#figures.get(name) ?? []), value])
    }
  }

  of(name: string): readonly number[] {
    return (this.#figures.get(name) ?? []).slice(1)
  }
}

export interface Grown {
  readonly values: Readonly<Record<string, number>>
  readonly ratios: Readonly<Record<string, number>>
}

interface Testbeds {
  readonly empty: Testbed
  readonly full: Testbed
}

/** After a checkpoint the log takes every page as a whole when it is first written: the slowest minute. */
export async function roundsAfterCheckpoint(
  { empty, full }: Testbeds,
  { rounds, events }: Scale,
): Promise<Grown> {
  const notes = { empty: new Notes(), full: new Notes() }
  const rates = await alternate(
    [
      contestant('empty', { testbed: empty, notes: notes.empty }),
      contestant('full', { testbed: full, notes: notes.full }),
    ],
    { rounds, events },
  )
  return {
    values: {
      full: median(rates.get('full') ?? []),
      'full, WAL bytes': median(notes.full.of('WAL bytes')),
    },
    ratios: { full: ratioOf(rates, 'full', 'empty') },
  }
}

/** Batches beside an empty table, beside a full one, and beside a full one that is swept, in turn. */
export async function roundsBeside(
  { empty, full }: Testbeds,
  { rounds, events }: Scale,
): Promise<Grown> {
  const notes = { empty: new Notes(), full: new Notes(), swept: new Notes() }
  const rates = await alternate(
    [
      contestant('empty', { testbed: empty, notes: notes.empty }),
      contestant('full', { testbed: full, notes: notes.full }),
      contestant('swept', { testbed: full, notes: notes.swept, isSwept: true }),
    ],
    { rounds, events },
  )
  const values: Record<string, number> = {}
  for (const name of ['empty', 'full', 'swept'] as const) {
    values[name] = median(rates.get(name) ?? [])
    for (const what of ['p99 ms of a batch', 'WAL bytes']) {
      values[`${name}, ${what}`] = median(notes[name].of(what))
    }
    values[`${name}, longest pause ms`] = longestPause(notes[name])
  }
  values['pause by the sweep ms'] = longestPause(notes.swept) - longestPause(notes.full)
  values['longest step of the sweep ms'] = Math.max(...notes.swept.of('step'))
  const ratios = {
    full: ratioOf(rates, 'full', 'empty'),
    swept: ratioOf(rates, 'swept', 'empty'),
  }
  return { values, ratios }
}

const longestPause = (notes: Notes): number => Math.max(...notes.of('pause'))

interface Beside {
  readonly testbed: Testbed
  readonly notes: Notes
  readonly isSwept?: boolean
}

function contestant(name: string, { testbed, notes, isSwept = false }: Beside): Contestant {
  const { pool, guard } = testbed
  return {
    name,
    factor: FACTOR,
    prepare: async (events) => {
      if (name === 'empty') await pool.query('truncate onceward.processed_events')
      await pool.query('truncate effects')
      const slices = Array.from({ length: events / BATCH }, () =>
        Array.from({ length: BATCH }, toDelivery),
      )
      return async () => {
        const stop = new AbortController()
        const before = await logBytes(pool)
        const sweeping = isSwept ? testbed.sweep(stop.signal) : undefined
        const timed = await timedBatches(slices, (slice) => settle(guard, slice, 'processed'))
        stop.abort()
        const step = (await sweeping) ?? 0
        const after = await logBytes(pool)
        notes.note({
          'p99 ms of a batch': timed.p99,
          pause: timed.longestPause,
          step,
          'WAL bytes': (after - before) / events,
        })
        return timed.tookMs
      }
    },
  }
}

/** The total time, the 99th percentile, and the longest time in which no batch ended; milliseconds. */
async function timedBatches(
  slices: readonly (readonly Delivery[])[],
  work: (slice: readonly Delivery[]) => Promise<void>,
): Promise<{ readonly tookMs: number; readonly p99: number; readonly longestPause: number }> {
  const startedAt = performance.now()
  const times: number[] = []
  let lastEnd: number | undefined
  let longestPause = 0
  await inLanes(slices, CONCURRENCY, async (slice) => {
    const begunAt = performance.now()
    await work(slice)
    const now = performance.now()
    times.push(now - begunAt)
    longestPause = Math.max(longestPause, now - (lastEnd ?? now))
    lastEnd = now
  })
  const sorted = times.toSorted((a, b) => a - b)
  const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN
  return { tookMs: performance.now() - startedAt, p99, longestPause }
}
