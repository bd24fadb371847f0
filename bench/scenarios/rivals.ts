import { postgres } from '@onceward/testing/servers'
import { createEffects, DURABLE } from '../load/effects.ts'
import { startSqsProcess } from '../load/proxy-process.ts'
import { openCache } from '../redis/testbed.ts'
import { FATES } from '../rivals/aim.ts'
import { costsOf } from '../rivals/costs.ts'
import { withPool } from '../rivals/database.ts'
import type { Entrant } from '../rivals/handed.ts'
import { installRivals } from '../rivals/install.ts'
import { killTenTimes } from '../rivals/kills.ts'
import type { Rival } from '../rivals/rival.ts'
import { fresh, halfDuplicates, Latencies } from '../rivals/throughput.ts'
import type { Benchmark } from '../runner/report.ts'
import { alternate, median, ratioOf } from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'

/** The guard beside what people use instead: the same handler, the same messages. */
export async function rivalsBenchmark(scale: Scale): Promise<Benchmark> {
  const versions = await installRivals()
  console.log(
    Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(', '),
  )
  // The rivals can be imported only after they are installed.
  const { OTHERS, RIVALS } = await import('../rivals/contestants/index.ts')
  const handed = await handedOut(RIVALS, scale)
  const killed = await allKilled(RIVALS)
  return {
    name: 'rivals',
    unit: 'events/s',
    values: { ...handed.values, ...killed },
    ratios: handed.ratios(OTHERS.map(({ name }) => name)),
    goals: [
      ...OTHERS.flatMap(({ name }) => [
        { name: `each of ${name}`, least: 1 },
        { name: `each of ${name}, half duplicates`, least: 1 },
        { name: `batch of ${name}`, least: 2 },
      ]),
      ...Object.keys(killed)
        .filter((name) => /^(each|batch)/.test(name))
        .map((name) => ({ name, most: 0 })),
    ],
  }
}

/** Settings of Postgres: the time of an event is measured by commit timestamps. */
const SETTINGS = { ...DURABLE, track_commit_timestamp: 'on' }

interface Handed {
  readonly values: Readonly<Record<string, number>>
  ratios(others: readonly string[]): Readonly<Record<string, number>>
}

/** Rates and costs: messages from memory, a database for each rival on one server, and one Redis for all. */
async function handedOut(rivals: readonly Rival[], scale: Scale): Promise<Handed> {
  await using server = await postgres({ settings: SETTINGS })
  await using cache = await openCache()
  const entrants: Entrant[] = []
  for (const rival of rivals) {
    const databaseUrl = await server.createDatabase()
    await withPool(databaseUrl, createEffects)
    await rival.setUp(databaseUrl)
    entrants.push({ rival, databaseUrl, redisUrl: cache.url })
  }
  const { rivalRounds: rounds, warmUp } = scale
  const warm = { rounds, events: scale.events / 4 }
  const size = { ...warm, warmUp }
  const latencies = new Latencies()
  const rates = await alternate(
    entrants.map((entrant) => fresh(entrant, latencies)),
    size,
  )
  const half = await alternate(entrants.map(halfDuplicates), warm)
  const values: Record<string, number> = {}
  for (const entrant of entrants) {
    const { name } = entrant.rival
    const { p50, p99 } = latencies.of(name, size.rounds)
    values[name] = median(rates.get(name) ?? [])
    values[`${name}, half duplicates`] = median(half.get(name) ?? [])
    values[`${name}, p50 ms`] = p50
    values[`${name}, p99 ms`] = p99
    for (const [what, cost] of Object.entries(await costsOf(entrant, scale.events / 2))) {
      values[`${name}, ${what}`] = cost
    }
  }
  return {
    values,
    ratios: (others) =>
      Object.fromEntries(
        ['each', 'each-shared', 'batch'].flatMap((ours) =>
          ['unguarded', ...others].flatMap((other) => [
            [`${ours} of ${other}`, ratioOf(rates, ours, other)],
            [`${ours} of ${other}, half duplicates`, ratioOf(half, ours, other)],
          ]),
        ),
      ),
  }
}

/** Lost and doubled of 300 events under ten SIGKILLs. For contestants without Redis there is one case. */
async function allKilled(rivals: readonly Rival[]): Promise<Readonly<Record<string, number>>> {
  await using server = await postgres()
  await using queues = await startSqsProcess()
  const place = { server, connection: queues.connection }
  const values: Record<string, number> = {}
  for (const rival of rivals) {
    for (const fate of rival.hasRedis ? FATES : (['up'] as const)) {
      const { lost, doubled } = await killTenTimes(rival, fate, place)
      const label = rival.hasRedis ? `${rival.name}, Redis ${fate}` : rival.name
      values[`${label}, lost`] = lost
      values[`${label}, doubled`] = doubled
    }
  }
  return values
}
