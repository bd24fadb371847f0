import type { GuardReading, WatchedGuard } from '@onceward/core'
import { expect, test } from 'vitest'
import type { Sdk, Series } from './fixtures/sdk.ts'
import { SDKS } from './fixtures/sdks.ts'
import { meterObserver } from './meter-observer.ts'
import { DELIVERY_METRICS } from './names.ts'

const newest = (): Sdk => (SDKS.at(-1) as (typeof SDKS)[number])[1]()

const WELL: GuardReading = {
  ...{ inHand: 0, concurrency: 1, breaker: 'closed', outages: [], pool: undefined },
  leases: undefined,
}

/** What is told of guards of one consumer. */
async function toldOf(...readings: readonly Partial<GuardReading>[]): Promise<readonly Series[]> {
  const { collect, meterProvider } = newest()
  const { watch } = meterObserver({ meterProvider, figuresEveryMs: false })
  for (const reading of readings) {
    const guard: WatchedGuard = {
      ...{ consumer: 'billing', figures: async () => undefined },
      read: () => ({ ...WELL, ...reading }),
    }
    watch?.(guard)
  }
  return collect()
}

const valuesOf = (series: readonly Series[], metric: string): readonly (readonly unknown[])[] =>
  series
    .filter(({ name }) => name === `onceward.${metric}`)
    .map(({ attributes, value }) => [...Object.values(attributes), value])

test('one guard of a consumer with an open breaker or an outage is enough', async () => {
  const series = await toldOf({}, { breaker: 'open', outages: ['leases'] }, {})
  expect(valuesOf(series, 'guard.breaker')).toEqual([['billing', 1]])
  expect(valuesOf(series, 'guard.outage')).toEqual([
    ['billing', 'inbox', 0],
    ['billing', 'leases', 1],
    ['billing', 'dead-letters', 0],
  ])
})

test('of several pools the one with the most waiting is told, then the one with the most used', async () => {
  const pool = (waiting: number, used: number) => ({
    pool: { used, idle: 1, waiting, size: 100 + used },
  })
  const usedOf = async (...pools: readonly ReturnType<typeof pool>[]) =>
    valuesOf(await toldOf(...pools), 'pool.max')
  expect(await usedOf(pool(0, 9), pool(3, 1), pool(2, 5))).toEqual([['billing', 101]])
  expect(await usedOf(pool(1, 4), pool(1, 6), pool(1, 5))).toEqual([['billing', 106]])
})

test('what a guard does not have is not told', async () => {
  const bare = await toldOf({})
  for (const metric of ['pool.max', 'pool.connections', 'pool.waiting', 'leases', 'lease.renewals'])
    expect(valuesOf(bare, metric), metric).toEqual([])
  const unknown = await toldOf({ pool: { used: 1, idle: 0, waiting: 0, size: undefined } })
  expect(valuesOf(unknown, 'pool.max')).toEqual([])
  expect(valuesOf(unknown, 'pool.waiting')).toEqual([['billing', 0]])
})

test('a second guard of the consumer without leases changes nothing of those of the first', async () => {
  const renewals = { held: 2, lost: 0, failed: 0 }
  const series = await toldOf({}, { leases: { held: 1, renewals } })
  expect(valuesOf(series, 'leases')).toEqual([['billing', 1]])
  const counters = series.filter(({ isMonotonic }) => isMonotonic).map(({ name }) => name)
  expect(new Set(counters)).toEqual(new Set(['onceward.lease.renewals']))
})

test('times are in seconds, in buckets that fit what they measure', async () => {
  const { collect, meterProvider } = newest()
  const observe = meterObserver({ meterProvider })
  observe({
    ...{ consumer: 'billing', source: { broker: 'sqs', queue: 'orders' }, attempt: 1 },
    ...{ keyHash: 'h', eventId: 'i', totalMs: 1, handlerMs: 2_000, messageAgeMs: 3_000 },
    ...{ settlement: { kind: 'ack', by: 'processed' }, parked: true },
  })
  const series = await collect()
  const of = (metric: keyof typeof DELIVERY_METRICS) =>
    series.find(({ name }) => name === DELIVERY_METRICS[metric].name)
  expect([of('processDuration')?.sum, of('age')?.sum]).toEqual([2, 3])
  expect(of('processDuration')?.boundaries?.at(0)).toBe(0.005)
  expect(of('attempts')?.boundaries).toEqual([1, 2, 3, 5, 10, 20, 50])
  expect(of('age')?.boundaries?.at(-1)).toBe(86_400)
  expect([of('claim'), of('commit')]).toEqual([undefined, undefined])
  const [counted] = series.filter(({ name, value }) => name === 'onceward.deliveries' && value > 0)
  expect(counted?.attributes).toMatchObject({ 'onceward.parked': true })
})
