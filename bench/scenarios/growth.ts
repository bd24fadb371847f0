import { statfs } from 'node:fs/promises'
import { tmpdir, totalmem } from 'node:os'
import { postgres } from '@onceward/testing/servers'
import { DURABLE } from '../load/effects.ts'
import { roundsAfterCheckpoint, roundsBeside } from '../retention/rounds.ts'
import { fill, fillAsSwept, indexBytes } from '../retention/table.ts'
import { openTestbed } from '../retention/testbed.ts'
import type { Benchmark } from '../runner/report.ts'
import type { Scale } from '../runner/scale.ts'

/** The number of processed events in the table when it is measured. */
const SIZES = [1_000_000, 10_000_000, 50_000_000]

/** Disk space per event while the table grows, including the log. */
const BYTES_PER_EVENT = 500

const MINUTE_MS = 60_000

/** An index page holds some 200 events, so that this many inserts touch nearly every page. */
const TOUCHING = 1 / 20

/**
 * As PostgreSQL's manual advises for a server of its own, and for one that writes much: its defaults are for the
 * smallest machine, and would have a checkpoint for every gigabyte of log.
 */
const OF_A_SERVER = {
  shared_buffers: `${Math.floor(totalmem() / 4 / 2 ** 20)}MB`,
  max_wal_size: '16GB',
  checkpoint_timeout: '30min',
}

/** Batches beside a growing table of processed events, as far as time and disk allow. */
export async function growthBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: { ...DURABLE, ...OF_A_SERVER } })
  await using empty = await openTestbed(await server.createDatabase())
  await using full = await openTestbed(await server.createDatabase())
  const endsAt = performance.now() + scale.minutes * MINUTE_MS
  const values: Record<string, number> = {}
  const ratios: Record<string, number> = {}
  let remembered = 0
  let tookMs = 0
  for (const size of SIZES) {
    const added = size - remembered
    // The time to fill the table grows in proportion to the rows.
    const lasts = remembered === 0 ? 0 : (tookMs * added) / remembered
    if (performance.now() + lasts > endsAt || !(await hasRoom(added * BYTES_PER_EVENT))) break
    const startedAt = performance.now()
    await fillAsSwept(full.pool, added)
    tookMs = performance.now() - startedAt
    remembered = size
    const label = `${size / 1_000_000} M`
    const worst = await roundsAfterCheckpoint({ empty, full }, scale)
    await fill(full.pool, size * TOUCHING)
    const usual = await roundsBeside({ empty, full }, scale)
    for (const [phase, measured] of [
      [`${label} after a checkpoint`, worst],
      [label, usual],
    ] as const) {
      for (const [name, value] of Object.entries(measured.values))
        values[`${phase}: ${name}`] = value
      for (const [name, value] of Object.entries(measured.ratios))
        ratios[`${phase}: ${name}`] = value
    }
    values[`${label}: index MiB`] = (await indexBytes(full.pool)) / 2 ** 20
  }
  const largest = `${remembered / 1_000_000} M`
  return {
    name: 'growth',
    unit: 'events/s',
    values,
    ratios,
    goals: [
      { name: `${largest}: full`, least: 0.9 },
      { name: `${largest}: pause by the sweep ms`, most: 50 },
    ],
  }
}

async function hasRoom(bytes: number): Promise<boolean> {
  const { bavail, bsize } = await statfs(tmpdir())
  return bavail * bsize > bytes
}
