import { postgres } from '@onceward/testing/servers'
import { createEffects, DURABLE } from '../load/effects.ts'
import { openCache } from '../redis/testbed.ts'
import { FATES } from '../rivals/aim.ts'
import { withPool } from '../rivals/database.ts'
import { killServerTenTimes } from '../rivals/http/kills.ts'
import type { HttpRival } from '../rivals/http/rival.ts'
import { type RivalServer, startServer } from '../rivals/http/server.ts'
import { freshOrders, retriedOrders } from '../rivals/http/throughput.ts'
import { installRivals } from '../rivals/install.ts'
import { type ProcessorMeter, processorMeter } from '../runner/processor-time.ts'
import type { Benchmark } from '../runner/report.ts'
import { alternateMetered, median, processorTimes, ratioOf } from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'

/** The guarded route beside the bare one and what people put before theirs: Express 5, one server process each. */
export async function httpBenchmark(scale: Scale): Promise<Benchmark> {
  await installRivals()
  // The rivals can be imported only after they are installed.
  const { HTTP_RIVALS, OTHERS } = await import('../rivals/http/contestants/index.ts')
  const rates = await ratesOf(HTTP_RIVALS, scale)
  const damages = await allKilled(HTTP_RIVALS)
  const others = ['bare', ...OTHERS.map(({ name }) => name)]
  return {
    name: 'http',
    unit: 'requests/s',
    values: { ...rates.values, ...damages },
    ratios: rates.ratios(others),
    goals: [
      { name: 'onceward of by-hand', least: 1 },
      { name: 'onceward of node-idempotency', least: 1 },
      ...Object.keys(damages)
        .filter((name) => name.startsWith('onceward'))
        .map((name) => ({ name, most: 0 })),
    ],
  }
}

interface Rates {
  readonly values: Readonly<Record<string, number>>
  ratios(others: readonly string[]): Readonly<Record<string, number>>
}

/** A database for each rival on one server, and one Redis for all. */
async function ratesOf(rivals: readonly HttpRival[], scale: Scale): Promise<Rates> {
  await using database = await postgres({ settings: DURABLE })
  await using cache = await openCache()
  await using stack = new AsyncDisposableStack()
  const servers: (readonly [string, RivalServer])[] = []
  const meters = new Map<string, ProcessorMeter>()
  for (const rival of rivals) {
    const databaseUrl = await database.createDatabase()
    await withPool(databaseUrl, createEffects)
    await rival.setUp(databaseUrl)
    const settings = { name: rival.name, databaseUrl, redisUrl: cache.url }
    const server = stack.use(await startServer(settings))
    servers.push([rival.name, server])
    meters.set(
      rival.name,
      await withPool(databaseUrl, (pool) => processorMeter(pool, server.child.pid)),
    )
  }
  const meterOf = (name: string): ProcessorMeter => meters.get(name) as ProcessorMeter
  const { rivalRounds: rounds, warmUp } = scale
  const warm = { rounds, events: scale.events / 2 }
  const size = { ...warm, warmUp }
  const freshly = servers.map((each) => freshOrders(...each))
  const { rates: fresh, costs } = await alternateMetered(freshly, size, meterOf)
  const again = servers.map((each) => retriedOrders(...each))
  const { rates: retried, costs: costsOfRetries } = await alternateMetered(again, warm, meterOf)
  const values: Record<string, number> = {
    ...processorTimes(costs),
    ...processorTimes(
      new Map([...costsOfRetries].map(([name, rounds]) => [`${name}, retries`, rounds])),
    ),
  }
  for (const [name] of servers) {
    values[name] = median(fresh.get(name) ?? [])
    values[`${name}, retries`] = median(retried.get(name) ?? [])
  }
  return {
    values,
    ratios: (others) =>
      Object.fromEntries(
        ['onceward', 'onceward-redis'].flatMap((ours) =>
          others.flatMap((other) => [
            [`${ours} of ${other}`, ratioOf(fresh, ours, other)],
            [`${ours} of ${other}, retries`, ratioOf(retried, ours, other)],
          ]),
        ),
      ),
  }
}

/** What 300 orders and their clients suffer from ten SIGKILLs. */
async function allKilled(rivals: readonly HttpRival[]): Promise<Readonly<Record<string, number>>> {
  await using server = await postgres()
  const values: Record<string, number> = {}
  for (const rival of rivals) {
    for (const fate of rival.hasRedis ? FATES : (['up'] as const)) {
      const label = rival.hasRedis ? `${rival.name}, Redis ${fate}` : rival.name
      for (const [what, count] of Object.entries(await killServerTenTimes(rival, fate, server))) {
        values[`${label}, ${what}`] = count
      }
    }
  }
  return values
}
