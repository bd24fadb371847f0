import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import { type Times, Watchdog } from './watchdog.ts'

/** The limit is 1,000 ms. */
const TIMES: Times = { sessionTimeout: 500, rebalanceTimeout: 500 }

test('the watchdog reports once, after silence for the whole limit', async () => {
  const clock = new Clock()
  const watchdog = new Watchdog(clock.runtime, TIMES)
  let barks = 0
  watchdog.begin(() => {
    barks += 1
  })
  await clock.advance(400)
  watchdog.heard()
  await clock.advance(999)
  expect(barks).toBe(0)
  await clock.advance(1)
  expect([barks, clock.timers]).toEqual([1, 0])
  // Red when they keep a process alive that is done.
  expect(new Set(clock.asked.map(({ keepAlive }) => keepAlive))).toEqual(new Set([false]))
})

// Red when a fetch, which tells no generation, is taken for one of another generation.
test('heartbeats of the joined generation and fetches are signs of life, also after a join and a new beginning', async () => {
  const clock = new Clock()
  const watchdog = new Watchdog(clock.runtime, TIMES)
  const barks: string[] = []
  const begin = (): void => watchdog.begin(({ message }) => barks.push(message))
  const live = async (generation: number): Promise<void> => {
    for (let round = 0; round < 3; round += 1) {
      watchdog.heard({ generation })
      await clock.advance(499)
      watchdog.heard()
      expect(watchdog.silentMs).toBe(0)
      await clock.advance(900)
    }
  }
  begin()
  await live(7)
  watchdog.joined()
  await live(8)
  // A rejoin was due when the consumer ended. The next consumer owes none.
  watchdog.heard({ generation: 9 })
  watchdog.end()
  begin()
  expect(watchdog.silentMs).toBe(0)
  await live(9)
  await clock.advance(1_000)
  expect(barks).toEqual(['Fetches and heartbeats got no answer within 1000 ms'])
})

test('the watchdog reports nothing after its end, and only to the last listener', async () => {
  const clock = new Clock()
  const watchdog = new Watchdog(clock.runtime, TIMES)
  const barks: string[] = []
  watchdog.begin(() => barks.push('first'))
  watchdog.begin(() => barks.push('second'))
  await clock.advance(1_000)
  expect(barks).toEqual(['second'])
  watchdog.begin(() => barks.push('third'))
  watchdog.end()
  expect(clock.timers).toBe(0)
})

// Red when such answers count: the partitions that the lost join brought are read by nobody, for ever.
test.each([
  ['heartbeats of a generation that it has not joined', { generation: 8 }],
  ['fetches while a rebalance waits for its join', { isHeld: true }],
])('%s are silence, until the next join', async (_what, answer) => {
  const clock = new Clock()
  const watchdog = new Watchdog(clock.runtime, TIMES)
  const barks: string[] = []
  watchdog.begin(({ message }) => barks.push(message))
  for (const isJoined of [true, false]) {
    watchdog.heard({ generation: 7 })
    watchdog.heard(answer)
    await clock.advance(900)
    if (isJoined) watchdog.joined()
    else watchdog.heard(answer)
    expect(barks).toEqual([])
  }
  await clock.advance(100)
  expect(barks).toEqual(['A rejoin got no answer within 1000 ms'])
})

// Red when the limit is only the session: a member that waits for others to rejoin would be replaced.
test.each<[Times, number]>([
  [{ sessionTimeout: 10_000 }, 70_000],
  [{ sessionTimeout: 10_000, rebalanceTimeout: 5_000 }, 20_000],
  [{ sessionTimeout: 10_000, rebalanceTimeout: 120_000 }, 130_000],
])('the limit with %o is %i ms', (times, limitMs) => {
  expect(new Watchdog(new Clock().runtime, times).limitMs).toBe(limitMs)
})

// Red when they count: kafkajs fetches on for ever after the broker has forgotten its member and a join has failed.
test('fetches without a heartbeat for a session are silence, until a heartbeat or a join', async () => {
  const clock = new Clock()
  const watchdog = new Watchdog(clock.runtime, TIMES)
  const barks: string[] = []
  watchdog.begin(({ message }) => barks.push(message))
  const fetches = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 100) {
      await clock.advance(100)
      watchdog.heard()
    }
  }
  await fetches(900)
  expect(watchdog.silentMs).toBe(500)
  watchdog.heard({ generation: 7 })
  await fetches(900)
  watchdog.joined()
  await fetches(1_300)
  expect(barks).toEqual([])
  await fetches(100)
  expect(barks).toEqual(['A rejoin got no answer within 1000 ms'])
})
