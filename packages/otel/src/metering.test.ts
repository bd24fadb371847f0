import type { OutcomeRecord } from '@onceward/core'
import type { GuardReading, WatchedGuard } from '@onceward/core/ports'
import { type Counter, type Meter, type MeterProvider, metrics } from '@opentelemetry/api'
import { afterEach, expect, test, vi } from 'vitest'
import type { Sdk, Series } from './fixtures/sdk.ts'
import { SDKS } from './fixtures/sdks.ts'
import { meterObserver } from './meter-observer.ts'

const newest = (): Sdk => (SDKS.at(-1) as (typeof SDKS)[number])[1]()

const RECORD: OutcomeRecord = {
  ...{ consumer: 'billing', source: { broker: 'sqs', queue: 'orders' }, attempt: 1, totalMs: 1 },
  settlement: { kind: 'ack', by: 'duplicate' },
}

/** Values of a metric by the attributes of onceward, without those that are 0. */
function countsOf(series: readonly Series[], metric: string): Readonly<Record<string, number>> {
  const told = series
    .filter(({ name, value }) => name === `onceward.${metric}` && value > 0)
    .map(({ attributes, value }): [string, number] => {
      const own = Object.entries(attributes).filter(([name]) => name.startsWith('onceward.'))
      return [own.map(([, each]) => each).join(' '), value]
    })
  return Object.fromEntries(told)
}

/** A guard with leases of its own, until `isOver`. */
function leased(held: number) {
  const state = { isOver: false }
  const read = (): GuardReading => ({
    ...{ inHand: 1, concurrency: 1, breaker: 'closed', outages: [], pool: undefined },
    leases: state.isOver ? undefined : { held: 1, renewals: { held, lost: 0, failed: 0 } },
  })
  const guard: WatchedGuard = { consumer: 'billing', read, figures: async () => undefined }
  return { guard, state }
}

afterEach(() => metrics.disable())

/** The provider, with a count of what its counters were given. */
function counting(meterProvider: MeterProvider) {
  const add = vi.fn<Counter['add']>()
  const getMeter = (...args: Parameters<MeterProvider['getMeter']>): Meter => {
    const meter = meterProvider.getMeter(...args)
    return new Proxy(meter, {
      get: (target, name) =>
        name === 'createCounter' ? () => ({ add }) : Reflect.get(target, name).bind(target),
    })
  }
  return { add, provider: { getMeter } }
}

// Red when each delivery pays for them.
test('the series of dead letters begin once for each queue and consumer', () => {
  const { add, provider } = counting(newest().meterProvider)
  const observe = meterObserver({ meterProvider: provider })
  const addedBy = (record: OutcomeRecord): number => {
    add.mockClear()
    observe(record)
    return add.mock.calls.length
  }
  const other = { ...RECORD, consumer: 'shipping' }
  expect([RECORD, RECORD, other, other].map(addedBy)).toEqual([10, 1, 10, 1])
})

test('the renewals of guards count when they have closed, one after the other', async () => {
  const { collect, meterProvider } = newest()
  const { watch } = meterObserver({ meterProvider })
  const guards = [leased(5), leased(7)]
  const stops = guards.map(({ guard }) => watch?.(guard))
  const renewals = async () => countsOf(await collect(), 'lease.renewals')
  expect(await renewals()).toEqual({ held: 12 })
  for (const [index, { state }] of guards.entries()) {
    // A guard that closes has no leases any more, and may be read once more.
    state.isOver = true
    await collect()
    stops[index]?.()
    expect(await renewals()).toEqual({ held: 12 })
  }
})

test('`figuresEveryMs: false` asks no table', async () => {
  const { collect, meterProvider } = newest()
  const figures = vi.fn<WatchedGuard['figures']>(async () => undefined)
  const { watch } = meterObserver({ meterProvider, figuresEveryMs: false })
  watch?.({ ...leased(0).guard, figures })
  await collect()
  expect(figures).not.toHaveBeenCalled()
})
