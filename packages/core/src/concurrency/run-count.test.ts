import { expect, test } from 'vitest'
import { RunCount } from './run-count.ts'

test('is idle at first, and again when as many runs have ended as have started', async () => {
  const runs = new RunCount()
  await runs.idle()
  runs.start()
  runs.start()
  const ends: string[] = []
  const idle = [runs.idle(), runs.idle()].map((each) => each.then(() => ends.push('idle')))
  runs.end()
  await Promise.resolve()
  expect([runs.running, ...ends]).toEqual([1])
  runs.end()
  await Promise.all(idle)
  expect([runs.running, ...ends]).toEqual([0, 'idle', 'idle'])
  runs.start()
  const again = runs.idle()
  runs.end()
  await again
  // Most runs end while nobody waits.
  runs.start()
  runs.end()
  expect(runs.running).toBe(0)
})
