import {
  type CommonOptions,
  createGuard,
  FatalError,
  type Guard,
  type Handler,
  type Observer,
  type OutcomeRecord,
} from '@onceward/core'
import { memoryInbox, memoryLeases, toDelivery } from '@onceward/core/memory'
import type { WatchedGuard } from '@onceward/core/ports'
import { metrics } from '@opentelemetry/api'
import { afterEach, describe, expect, test } from 'vitest'
import type { Sdk, Series } from './fixtures/sdk.ts'
import { SDKS } from './fixtures/sdks.ts'
import { meterObserver } from './meter-observer.ts'
import { DELIVERY_METRICS, GUARD_METRICS, METRICS, TABLE_METRICS } from './names.ts'
import { DEAD_LETTER_REASONS } from './values.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const source = { broker: 'sqs', queue: 'https://sqs.eu-west-1.amazonaws.com/123456789/orders' }
const createSdk = (): Sdk => (SDKS.at(-1) as (typeof SDKS)[number])[1]()

function guardOf(
  options: Partial<CommonOptions<unknown, unknown>>,
  handler: Handler<unknown> = () => undefined,
): Guard {
  const inbox = memoryInbox()
  return createGuard({ consumer: 'billing', inbox, logger: silent, ...options }, handler)
}

const named = (series: readonly Series[], name: string): readonly Series[] =>
  series.filter((each) => each.name === name)

/** The values of a metric, by what its own attributes say. */
function valuesOf(series: readonly Series[], name: string): Readonly<Record<string, number>> {
  const told = named(series, name).map(({ attributes, value }) => {
    const own = Object.entries(attributes).filter(([each]) => each.startsWith('onceward.'))
    return [own.map(([, each]) => each).join(' '), value] as const
  })
  return Object.fromEntries(told)
}

/** Dead letters are counted from 0, so that a rate sees the first ones. */
const BEGUN = Object.fromEntries(
  DEAD_LETTER_REASONS.map((reason) => [`dead-letter ${reason}`, 0] as const),
)

afterEach(() => metrics.disable())

describe.each(SDKS)('with %s', (_, makeSdk) => {
  test('every delivery is counted by outcome, reason and cause, and every run is timed', async () => {
    const { collect, meterProvider, shutdown } = makeSdk()
    const observe = meterObserver({ meterProvider })
    const guard = guardOf({ observe, retry: { attempts: 2 } }, ({ payload }) => {
      if (payload === 'fatal') throw new FatalError('no')
      if (payload === 'fails') throw new Error('later')
    })
    const producedAt = new Date(Date.now() - 5_000)
    const good = toDelivery('good', { source, producedAt })
    const fatal = toDelivery('fatal', { source })
    await guard.processBatch([good, good, fatal, toDelivery('fails', { source })])
    await guard.process({ ...good, redelivered: true })
    await guard.process(fatal)
    const series = await collect()
    expect(valuesOf(series, DELIVERY_METRICS.deliveries.name)).toEqual({
      ...BEGUN,
      'ack processed': 1,
      'ack duplicate copy': 1,
      'ack duplicate redelivered': 1,
      'dead-letter fatal': 1,
      'dead-letter fatal true': 1,
      'defer failed handler-failed': 1,
    })
    const from = {
      'messaging.system.name': 'aws.sqs',
      'messaging.destination.name': 'orders',
      'messaging.consumer.group.name': 'billing',
    }
    for (const metric of Object.values(DELIVERY_METRICS))
      for (const { attributes } of named(series, metric.name))
        expect(attributes, metric.name).toMatchObject(from)
    const durations = named(series, 'messaging.process.duration')
    expect(
      durations
        .map(({ attributes, unit, value }) => [attributes['error.type'], unit, value])
        .toSorted(),
    ).toEqual([
      [undefined, 's', 1],
      ['fatal', 's', 1],
      ['handler-failed', 's', 1],
    ])
    const [age] = named(series, DELIVERY_METRICS.age.name)
    expect(age?.sum).toBeGreaterThan(14)
    expect(age?.sum).toBeLessThan(60)
    expect(named(series, DELIVERY_METRICS.commit.name)[0]?.value).toBe(1)
    await guard.close()
    await shutdown()
  })

  test('guards are read when the metrics are collected, until they are closed', async () => {
    const { collect, meterProvider, shutdown } = makeSdk()
    let during: readonly Series[] = []
    const options = { observe: meterObserver({ meterProvider }), ...{ leases: memoryLeases() } }
    const guard = guardOf({ ...options, concurrency: 3 }, async () => {
      during = await collect()
    })
    const other = guardOf({ ...options, concurrency: 2 })
    await guard.process(toDelivery({}))
    const values = (name: keyof typeof GUARD_METRICS) => valuesOf(during, GUARD_METRICS[name].name)
    expect(values('inHand')).toEqual({ '': 1 })
    expect(values('concurrency')).toEqual({ '': 5 })
    expect(values('breaker')).toEqual({ '': 0 })
    expect(values('outage')).toEqual({ inbox: 0, leases: 0, 'dead-letters': 0 })
    expect(values('leases')).toEqual({ '': 1 })
    expect(values('renewals')).toEqual({ held: 0, lost: 0, failed: 0 })
    await guard.close()
    await other.close()
    // An SDK repeats the last value of a series that nobody tells any more.
    const after = await collect()
    expect(valuesOf(after, GUARD_METRICS.inHand.name)).toEqual({ '': 0 })
    expect(valuesOf(after, GUARD_METRICS.leases.name)).toEqual({ '': 0 })
    await shutdown()
  })
})

test('guards that were made before the SDK was registered are measured from the first record on', async () => {
  const guard = guardOf({ observe: meterObserver() })
  const sdk = createSdk()
  metrics.setGlobalMeterProvider(sdk.meterProvider)
  await guard.process(toDelivery({}))
  const series = await sdk.collect()
  expect(valuesOf(series, DELIVERY_METRICS.deliveries.name)).toEqual({
    ...BEGUN,
    'ack processed': 1,
  })
  expect(valuesOf(series, GUARD_METRICS.inHand.name)).toEqual({ '': 0 })
  await guard.close()
})

test('without an SDK the guard works as without an observer', async () => {
  const guard = guardOf({ observe: meterObserver() })
  expect(await guard.process(toDelivery({}))).toMatchObject({ by: 'processed' })
  await guard.close()
})

/** A guard that answers what the test says, as an observer sees it. */
function watched(figures: WatchedGuard['figures']): WatchedGuard {
  const pools = [
    { used: 1, idle: 2, waiting: 0, size: 10 },
    { used: 3, idle: 0, waiting: 4, size: 10 },
  ]
  return {
    consumer: 'billing',
    read: () => ({
      ...{ inHand: 1, concurrency: 2, breaker: 'open', outages: ['inbox'], pool: pools.pop() },
      leases: { held: 1, renewals: { held: 5, lost: 1, failed: 0 } },
    }),
    figures,
  }
}

const FIGURES = {
  deadLetters: { fatal: 3 },
  parked: 2,
  parkedForMs: 1_500,
  workerSilencesMs: { billing: 12_000, mailing: 900_000 },
  tables: [{ name: 'processed_events', bytes: 8_192, rows: 7 }],
}

function watch(sdk: Sdk, guard: WatchedGuard, observe?: Observer): () => void {
  const { watch: start } = observe ?? meterObserver({ meterProvider: sdk.meterProvider })
  return start?.(guard) ?? (() => undefined)
}

test('the tables are told with a 0 for every reason, and asked once in a while', async () => {
  const sdk = createSdk()
  let asked = 0
  watch(
    sdk,
    watched(async () => {
      asked += 1
      return FIGURES
    }),
  )
  await sdk.collect()
  const series = await sdk.collect()
  expect(asked).toBe(1)
  const values = (name: keyof typeof TABLE_METRICS) => valuesOf(series, TABLE_METRICS[name].name)
  expect(values('deadLetters')).toMatchObject({ fatal: 3, 'attempts-spent': 0, takeover: 0 })
  expect(values('parked')).toEqual({ '': 2 })
  expect(values('parkedAge')).toEqual({ '': 1.5 })
  // Of every consumer of the tables: nobody else tells that one has no worker.
  const silences = named(series, TABLE_METRICS.workerSilence.name).map(({ attributes, value }) => [
    attributes['messaging.consumer.group.name'],
    value,
  ])
  expect(silences).toEqual([
    ['billing', 12],
    ['mailing', 900],
  ])
  expect(values('tableSize')).toEqual({ processed_events: 8_192 })
  expect(values('tableRows')).toEqual({ processed_events: 7 })
  // Red when the tables of several consumers are one series.
  for (const { name } of Object.values(TABLE_METRICS).filter(
    (each) => each !== TABLE_METRICS.workerSilence,
  ))
    for (const { attributes } of named(series, name))
      expect(attributes, name).toMatchObject({ 'messaging.consumer.group.name': 'billing' })
})

test.each([
  ['fails', () => Promise.reject(new Error('down'))],
  ['never answers', () => new Promise<never>(() => undefined)],
  ['has nothing open', () => Promise.resolve(undefined)],
])('a database that %s leaves its metrics out, and the others are told', async (_, figures) => {
  const sdk = createSdk()
  watch(sdk, watched(figures))
  const series = await sdk.collect()
  expect(named(series, TABLE_METRICS.parked.name)).toEqual([])
  expect(valuesOf(series, GUARD_METRICS.breaker.name)).toEqual({ '': 1 })
})

test('of guards of one consumer the fullest pool is told, and renewals of closed ones still count', async () => {
  const sdk = createSdk()
  const guard = watched(async () => undefined)
  const stop = watch(sdk, guard)
  watch(sdk, { ...guard, read: guard.read })
  const series = await sdk.collect()
  expect(valuesOf(series, GUARD_METRICS.pool.name)).toEqual({ used: 3, idle: 0 })
  expect(valuesOf(series, GUARD_METRICS.poolWaiting.name)).toEqual({ '': 4 })
  expect(valuesOf(series, GUARD_METRICS.renewals.name)).toMatchObject({ held: 10, lost: 2 })
  stop()
  stop()
  const after = await sdk.collect()
  expect(valuesOf(after, GUARD_METRICS.renewals.name)).toMatchObject({ held: 10, lost: 2 })
  expect(valuesOf(after, GUARD_METRICS.inHand.name)).toEqual({ '': 1 })
})

const RECORD: OutcomeRecord = {
  ...{
    consumer: 'billing',
    source,
    attempt: 1,
    totalMs: 1,
    keyHash: 'the-hash',
    eventId: 'the-id',
  },
  settlement: { kind: 'dead-letter', reason: 'fatal', error: new Error('the-secret') },
}

// Red when a topic pattern, or an adapter of one's own, makes a series of each name that comes.
test('however many queues there are, the series are bounded, and no key, id or error is in them', async () => {
  const { collect, meterProvider } = createSdk()
  const observe = meterObserver({ meterProvider })
  for (let n = 0; n < 1_000; n += 1)
    observe({ ...RECORD, source: { broker: `broker-${n}`, queue: 'q'.repeat(n) } })
  const series = named(await collect(), DELIVERY_METRICS.deliveries.name)
  expect(series.length).toBe(201 * DEAD_LETTER_REASONS.length)
  const other = series.find(
    ({ attributes, value }) => attributes['messaging.destination.name'] === '_OTHER' && value > 0,
  )
  expect(other?.value).toBe(800)
  const texts = series.flatMap(({ attributes }) => Object.values(attributes).map(String))
  expect(Math.max(...texts.map(({ length }) => length))).toBeLessThanOrEqual(256)
  expect(JSON.stringify(series)).not.toMatch(/the-/)
})

test('a producer whose clock is ahead does not make a negative age', async () => {
  const { collect, meterProvider } = createSdk()
  meterObserver({ meterProvider })({ ...RECORD, messageAgeMs: -60_000 })
  expect(named(await collect(), DELIVERY_METRICS.age.name)[0]?.sum).toBe(0)
})

test('every metric that is recorded is in the list, with its unit', async () => {
  const sdk = createSdk()
  const observe = meterObserver({ meterProvider: sdk.meterProvider })
  observe({ ...RECORD, handlerMs: 1, claimMs: 1, commitMs: 1, messageAgeMs: 1, parked: true })
  watch(
    sdk,
    watched(async () => FIGURES),
    observe,
  )
  const listed = new Map(METRICS.map((metric) => [metric.name, metric]))
  for (const { attributes, name, unit } of await sdk.collect()) {
    expect(listed.get(name)?.unit, name).toBe(unit)
    const known = [...(listed.get(name)?.attributes ?? [])]
    expect(known, name).toEqual(expect.arrayContaining(Object.keys(attributes)))
  }
})

test.each<[object, RegExp]>([
  [{ figuresEveryMs: 10 }, /Expected `figuresEveryMs` to be an integer from 1000 to 3600000/],
  [
    { meterProvidr: 1 },
    /meterObserver does not know "meterProvidr", did you mean "meterProvider"\?/,
  ],
])('%j is refused', (options, message) => {
  expect(() => meterObserver(options)).toThrow(message)
})
