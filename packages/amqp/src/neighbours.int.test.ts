// @module-tag nightly

import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { QueueType } from './fixtures/broker.ts'
import { downInbox } from './fixtures/down-inbox.ts'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { type Consumption, consumeAmqp } from './index.ts'

const kit = useRabbitmq()

const TYPES: readonly QueueType[] = ['classic', 'quorum']

async function isEmpty(queue: string, consumption: Consumption): Promise<boolean> {
  return (await kit.broker.ready(queue)) === 0 && consumption.health().inFlight === 0
}

// Red when the consumer is cancelled meanwhile: the queue and all that is in it go.
test.each(TYPES)(
  'trap B4: a %s queue that expires without a consumer outlives an outage of the store, with its messages',
  async (type) => {
    const queue = await kit.broker.create(type, { 'x-expires': 1_500 })
    const inbox = downInbox()
    const done: string[] = []
    const guard = guardOf(({ key }) => void done.push(key), { concurrency: 1 }, inbox)
    await using consumption = await consumeAmqp(kit.open, guard, { queue })
    inbox.isDown = true
    const keys = Array.from({ length: 20 }, (_, n) => `k-${n}`)
    await kit.broker.send(queue, keys)
    await until(() => consumption.health().state === 'paused')
    expect(consumption.health().reason).toContain('injected')
    const since = performance.now()
    await until(() => performance.now() - since > 4_000, { everyMs: 100 })
    expect(await kit.broker.consumers(queue)).toBe(1)
    inbox.isDown = false
    await until(() => done.length === 20)
    expect(done.toSorted()).toEqual(keys.toSorted())
  },
)

// Red with a fixed prefetch: one consumer has all messages in hand and runs them one by one.
test.each(TYPES)(
  'trap B6: two consumers share a %s queue of slow messages, and a fast one is not held up',
  async (type) => {
    const queue = await kit.broker.create(type)
    const gate = Promise.withResolvers<void>()
    const running = new Set<string>()
    const guardFor = () =>
      guardOf(
        async ({ key }) => {
          running.add(key)
          await gate.promise
        },
        { concurrency: 1 },
      )
    await kit.broker.send(queue, ['a', 'b', 'c'])
    await using first = await consumeAmqp(kit.open, guardFor(), { queue })
    await until(() => running.size === 1)
    await using second = await consumeAmqp(kit.open, guardFor(), { queue })
    await until(() => running.size === 2)
    expect([first, second].map((each) => each.health().inFlight)).toEqual([1, 1])
    expect(await kit.broker.ready(queue)).toBe(1)
    gate.resolve()
    await until(async () => running.size === 3 && (await isEmpty(queue, first)))
    await kit.broker.send(
      queue,
      Array.from({ length: 500 }, (_, n) => `k-${n}`),
    )
    await until(async () => running.size === 503 && (await isEmpty(queue, second)))
  },
)
