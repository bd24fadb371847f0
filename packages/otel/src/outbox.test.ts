import { ConfigurationError } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import { SDKS } from './fixtures/sdks.ts'
import { METRICS } from './names.ts'
import { meterOutbox } from './outbox.ts'

const figures = {
  ...{ destination: 'mails', waiting: 3, delayed: 2, refused: 1, dead: 4 },
  ...{ isServed: false, oldestWaitingMs: 90_500, published: 7, failed: 5 },
}

describe.each(SDKS)('with %s', (_, createSdk) => {
  test('what waits in the outbox is read when the metrics are collected, and never beside a database that is down', async () => {
    const { collect, meterProvider } = createSdk()
    const down = { figures: () => Promise.reject(new Error('down')) }
    const relays = { down, outbox: { figures: async () => [figures] } }
    const stop = meterOutbox(relays, { meterProvider })
    const series = await collect()
    const shown = series.map(
      ({ attributes, name, value }) => `${name} ${attributes['onceward.state'] ?? '-'} ${value}`,
    )
    expect(shown.toSorted()).toEqual([
      'onceward.outbox.age - 90.5',
      'onceward.outbox.failed - 5',
      'onceward.outbox.messages dead 4',
      'onceward.outbox.messages delayed 2',
      'onceward.outbox.messages refused 1',
      'onceward.outbox.messages waiting 3',
      'onceward.outbox.published - 7',
      'onceward.outbox.served - 0',
    ])
    const listed = new Map(METRICS.map((metric) => [metric.name, metric.attributes]))
    for (const { attributes, name } of series) {
      expect(Object.keys(attributes), name).toEqual(listed.get(name))
      expect(attributes).toMatchObject({
        ...{ 'onceward.consumption': 'outbox', 'onceward.outbox.destination': 'mails' },
      })
    }
    stop()
  })
})

test('what is no relay is refused by name', () => {
  const metered = (): unknown => meterOutbox({ outbox: {} as never })
  expect(metered).toThrow(ConfigurationError)
  expect(metered).toThrow(/`outbox` of meterOutbox, got object\. Give what `await startRelay/)
})
