import type { Health } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import { meterConsumptions } from './consumptions.ts'
import { SDKS } from './fixtures/sdks.ts'

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

test('what is no consumption is refused', () => {
  const wrong = { orders: {} } as unknown as { readonly orders: { health: () => Health } }
  expect(() => meterConsumptions(wrong)).toThrow(
    'Expected a consumption as `orders` of meterConsumptions, got object.',
  )
})
