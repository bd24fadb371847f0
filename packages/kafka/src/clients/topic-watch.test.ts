import { Clock } from '@onceward/testing/adapter'
import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { TopicWatch } from './topic-watch.ts'

const ignore = (): void => undefined

// Red when the check is made: each check of a broker that is down costs kafkajs connections (see `Commits`).
test('the topics are checked every three seconds, except while the broker does not answer', async () => {
  const clock = new Clock()
  let looks = 0
  let isAnswered = true
  const cluster = {
    findControllerBroker: async () => {
      looks += 1
      return {}
    },
  } as unknown as Cluster
  const watch = new TopicWatch({
    runtime: clock.runtime,
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    subscriptions: ['orders'],
    isAnswered: () => isAnswered,
    onAnew: async () => undefined,
    onAppeared: ignore,
  })
  await watch.begin(cluster)
  await clock.advance(3_000)
  expect(looks).toBe(2)
  isAnswered = false
  await clock.advance(30_000)
  expect(looks).toBe(2)
  isAnswered = true
  await clock.advance(3_000)
  expect(looks).toBe(3)
  watch.end()
  expect(clock.timers).toBe(0)
})
