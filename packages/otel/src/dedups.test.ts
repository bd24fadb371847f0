import { ConfigurationError } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import { meterDedups } from './dedups.ts'
import { SDKS } from './fixtures/sdks.ts'
import { METRICS } from './names.ts'

describe.each(SDKS)('with %s', (_, createSdk) => {
  test('the false positives of a dedup are read when the metrics are collected', async () => {
    const { collect, meterProvider } = createSdk()
    let counts = { probes: 1, hits: 0, bound: 0.01 }
    const stop = meterDedups({ clicks: { falsePositives: () => counts } }, { meterProvider })
    await collect()
    counts = { ...counts, probes: 200, hits: 3 }
    const series = await collect()
    expect(series.map(({ name, value }) => [name, value])).toEqual([
      ['onceward.dedup.probes', 200],
      ['onceward.dedup.hits', 3],
      ['onceward.dedup.bound', 0.01],
    ])
    const listed = new Map(METRICS.map((metric) => [metric.name, metric.attributes]))
    for (const { attributes, isMonotonic, name } of series) {
      expect(Object.keys(attributes), name).toEqual(listed.get(name))
      expect(attributes['onceward.dedup']).toBe('clicks')
      expect(isMonotonic ?? false, name).toBe(name !== 'onceward.dedup.bound')
    }
    stop()
    counts = { ...counts, probes: 300 }
    const after = await collect()
    expect(after.some(({ value }) => value === 300)).toBe(false)
  })
})

test.each([
  [null, /got null/],
  [undefined, /got undefined/],
  [{}, /Give what `approximateDedup\(…\)` returns/],
])('%j is refused by name', (dedup, message) => {
  const metered = (): unknown => meterDedups({ clicks: dedup as never })
  expect(metered).toThrow(ConfigurationError)
  expect(metered).toThrow(/`clicks` of meterDedups/)
  expect(metered).toThrow(message)
})
