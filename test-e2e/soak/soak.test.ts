// @module-tag nightly

import { skipped } from '@onceward/testing'
import { describe, expect, test } from 'vitest'
import { brokersWith } from '../brokers/index.ts'
import { createDice } from '../support/dice.ts'
import { findingsOf } from './report.ts'
import { soak } from './run.ts'
import { type Sample, type Trend, trendsOf } from './trend.ts'

/** A cycle that hangs fails by itself long before this. */
const LONGEST_MS = 900_000

// Red when a worker prints a warning, ends by itself, loses or doubles. To detect growth takes more cycles than this.
test('workers on all brokers live through blows at every server, and say nothing on standard error', {
  timeout: LONGEST_MS,
}, async () => {
  const { seed } = createDice()
  const brokers = brokersWith(({ service }) => !skipped(service) && !skipped('redis'))
  const options = { brokers, minutes: 0, cycles: 3, events: 60, seed }
  const { results } = await soak(options, () => undefined)
  expect(results.flatMap(findingsOf)).toEqual([])
  expect(results.map(({ events }) => events)).toEqual(brokers.map(() => 180))
})

describe('what a process holds on to', () => {
  const sampled = (grown: (index: number) => Partial<Sample>): readonly Sample[] =>
    Array.from({ length: 60 }, (_, index) => ({
      atMs: index * 30_000,
      heapBytes: 30 * 2 ** 20 + (index % 3) * 2 ** 19,
      ...{ handles: 20 + (index % 5), connections: 10, listeners: 300, fileDescriptors: 40 },
      ...grown(index),
    }))
  const growing = (trends: readonly Trend[]): readonly string[] =>
    trends.filter(({ isFlat }) => !isFlat).map(({ name }) => name)

  test('is flat where it only varies', () => {
    expect(growing(trendsOf(sampled(() => ({}))))).toEqual([])
  })

  test.each([
    ['a connection for every other blow', 'connections', (index: number) => 10 + index],
    ['a descriptor for each cycle', 'fileDescriptors', (index: number) => 40 + index],
    ['100 bytes an event', 'heapBytes', (index: number) => (30 << 20) + index * 1_500 * 100],
  ] as const)('grows when it loses %s', (_, name, valueAt) => {
    const trends = trendsOf(sampled((index) => ({ [name]: valueAt(index) })))
    expect(growing(trends)).toEqual([name])
    expect(trends.find((trend) => trend.name === name)?.perHour).toBeCloseTo(
      (valueAt(1) - valueAt(0)) * 120,
    )
  })
})
