import { expect, test } from 'vitest'
import { receiving } from './fixtures/receiving.ts'

test('only receives that brought all they asked for tell how long SQS takes', async () => {
  const kit = receiving()
  Object.assign(kit.world, { room: 2, capacity: 2 })
  // Durations are measured on the monotonic clock.
  Object.assign(kit.clock.runtime, { now: () => kit.clock.nowMs + 3_600_000 })
  await kit.started()
  await kit.clock.advance(700)
  kit.receives[0]?.answer('a1')
  await kit.clock.advance(0)
  expect(kit.told).toEqual(['take a1'])
  await kit.clock.advance(20)
  kit.receives.at(-1)?.answer('b1', 'c1')
  await kit.clock.advance(0)
  expect(kit.told).toEqual(['take a1', 'receive took 20', 'take b1 c1'])
})
