import type { Guard } from '@onceward/core'
import { redisLeases } from '@onceward/redis'
import { toDelivery } from '../load/effects.ts'
import { bareContestants, growMarks } from '../redis/marks.ts'
import { type Asked, stormContestants } from '../redis/storm.ts'
import { type Cache, type Database, openCache, openDatabase, PATIENT } from '../redis/testbed.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternate,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'
import { settle } from './guard.ts'

const BATCH = 100

type Rates = ReadonlyMap<string, readonly number[]>

/** Leases on Redis: alone, in front of Postgres, on a dead Redis, and on one full of done marks. */
export async function redisBenchmark(scale: Scale): Promise<Benchmark> {
  const { rounds } = scale
  const marks = await growMarks(scale.keys, rounds)
  await using cache = await openCache()
  const bare = await bareRates(cache, scale)
  await using database = await openDatabase()
  const asked: Asked = { events: 0, deliveries: 0 }
  const storm = await alternate(await stormContestants(database, cache, asked), {
    rounds,
    // The warm-up round counts here too, because it is part of the storm.
    events: Math.ceil(scale.storm / (rounds + 1) / 2_000) * 2_000,
  })
  const fresh = await freshRates(database, cache, scale)
  return {
    name: 'redis',
    unit: 'events/s',
    values: {
      ...medians([bare, storm, fresh, marks.rates]),
      'storm, asked of Postgres %': (asked.events / asked.deliveries) * 100,
      ...marks.bytes,
    },
    ratios: {
      'claim-complete': ratioOf(bare, 'claim-complete', 'set-nx-twice'),
      duplicates: ratioOf(bare, 'claim-duplicates', 'set-nx-duplicates'),
      storm: ratioOf(storm, 'storm-redis', 'storm-inbox'),
      'storm-of-batch': ratioOf(storm, 'storm-redis', 'storm-inbox-batch'),
      fresh: ratioOf(fresh, 'batch-redis', 'batch-inbox'),
      'fresh-always': ratioOf(fresh, 'batch-redis-always', 'batch-inbox'),
      'redis-dead': ratioOf(fresh, 'batch-redis-dead', 'batch-inbox'),
      'last-tenth': ratioOf(marks.rates, 'last-tenth', 'first-tenth'),
      'last-tenth-always': ratioOf(marks.rates, 'last-tenth-always', 'first-tenth-always'),
    },
    goals: [
      { name: 'claim-complete', least: 0.4 },
      { name: 'duplicates', least: 0.5 },
      { name: 'storm', least: 3 },
      { name: 'storm, asked of Postgres %', most: 1 },
      { name: 'fresh', least: 0.92 },
      { name: 'redis-dead', least: 0.85 },
      { name: 'last-tenth', least: 0.9 },
      ...Object.keys(marks.bytes).map((name) => ({ name, most: 45 })),
    ],
  }
}

async function bareRates(cache: Cache, { rounds, events }: Scale): Promise<Rates> {
  await using other = await openCache()
  return await alternate(await bareContestants(cache, other), { rounds, events: events * 10 })
}

const medians = (all: readonly Rates[]): Readonly<Record<string, number>> =>
  Object.fromEntries(all.flatMap((rates) => [...rates].map(([name, of]) => [name, median(of)])))

/** New events, 100 in a transaction: without Redis, with Redis, and with a dead Redis. */
async function freshRates(database: Database, cache: Cache, scale: Scale): Promise<Rates> {
  await using dead = await openCache()
  const batch = (consumer: string, of?: Cache, hold: 'always' | 'by-need' = 'by-need'): Guard =>
    database.guard({
      consumer,
      transaction: 'batch',
      // The default budget for the dead Redis, because that is what is measured.
      leases: of && redisLeases(of.client, of === dead ? {} : { ...PATIENT, hold }),
    })
  const guards = {
    'batch-inbox': batch('bench-inbox'),
    'batch-redis': batch('bench-redis', cache),
    'batch-redis-always': batch('bench-always', cache, 'always'),
    'batch-redis-dead': batch('bench-dead', dead),
  }
  await settle(guards['batch-redis-dead'], [toDelivery()], 'processed')
  await dead.kill()
  const contestants = Object.entries(guards).map(
    ([name, guard]): Contestant => ({
      name,
      prepare: async (events) => {
        const slices = Array.from({ length: events / BATCH }, () =>
          Array.from({ length: BATCH }, toDelivery),
        )
        return () => inLanes(slices, CONCURRENCY, (slice) => settle(guard, slice, 'processed'))
      },
    }),
  )
  return alternate(contestants, { rounds: scale.rounds, events: scale.events * 5 })
}
