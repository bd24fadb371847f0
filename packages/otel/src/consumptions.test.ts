import type { Health } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import { meterConsumptions } from './consumptions.ts'
import type { Sdk } from './fixtures/sdk.ts'
import { SDKS } from './fixtures/sdks.ts'
import { METRICS } from './names.ts'

const newest = (): Sdk => (SDKS.at(-1) as (typeof SDKS)[number])[1]()

describe.each(SDKS)('with %s', (_, createSdk) => {
  test('consumptions are read when the metrics are collected', async () => {
    const { collect, meterProvider } = createSdk()
    let health: Health = { state: 'running', inFlight: 1, settleFailures: 0 }
    meterConsumptions({ orders: { health: () => health } }, { meterProvider })
    await collect()
    health = { ...health, state: 'paused', inFlight: 3, lastProgressAt: new Date() }
    const series = await collect()
    const told = series.map(({ attributes, name, value }) => [
      ...[name, attributes['onceward.state'] ?? attributes['onceward.dependency'] ?? ''],
      value,
    ])
    expect(told).toEqual(
      expect.arrayContaining([
        ['onceward.consumption.state', 'running', 0],
        ['onceward.consumption.state', 'paused', 1],
        ['onceward.consumption.in_flight', '', 3],
        ['onceward.consumption.idle', '', expect.closeTo(0, -1)],
        ['onceward.consumption.outage', 'broker', 0],
      ]),
    )
    for (const { attributes } of series) expect(attributes['onceward.consumption']).toBe('orders')
  })
})

const HEALTH: Health = { state: 'running', inFlight: 0, settleFailures: 0 }

test('every value of health is told, in seconds, with the attributes of the list', async () => {
  const { collect, meterProvider } = newest()
  const health: Health = {
    ...{ ...HEALTH, settleFailures: 4, lastProgressAt: new Date(Date.now() - 90_000) },
    outages: [{ dependency: 'leases', reason: 'no answer' }],
  }
  meterConsumptions({ orders: { health: () => health } }, { meterProvider })
  const series = await collect()
  const toldOf = (name: string, dependency?: string): number | undefined =>
    series.find(
      (each) => each.name === name && each.attributes['onceward.dependency'] === dependency,
    )?.value
  const idle = toldOf('onceward.consumption.idle') ?? 0
  expect([idle >= 90, idle < 150]).toEqual([true, true])
  expect(toldOf('onceward.consumption.settle_failures')).toBe(4)
  for (const dependency of ['broker', 'inbox', 'leases', 'dead-letters'])
    expect(toldOf('onceward.consumption.outage', dependency), dependency).toBe(
      dependency === 'leases' ? 1 : 0,
    )
  const listed = new Map(METRICS.map((metric) => [metric.name, metric.attributes]))
  for (const { attributes, isMonotonic, name, schemaUrl } of series) {
    expect(Object.keys(attributes), name).toEqual(listed.get(name))
    expect(isMonotonic ?? false, name).toBe(name === 'onceward.consumption.settle_failures')
    expect(schemaUrl).toBe('https://opentelemetry.io/schemas/1.45.0')
  }
})

test('what is no consumption is refused', () => {
  const wrong = { orders: {} } as unknown as { readonly orders: { health: () => Health } }
  expect(() => meterConsumptions(wrong)).toThrow(
    'Expected a consumption as `orders` of meterConsumptions, got object.',
  )
  const none = { orders: null } as unknown as typeof wrong
  expect(() => meterConsumptions(none)).toThrow('got null.')
})
