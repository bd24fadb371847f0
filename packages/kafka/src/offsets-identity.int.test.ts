// @module-tag nightly

import { FatalError, type Handler, type Inbox } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { guardOf, type Order } from '@onceward/testing/adapter'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { range, useKafka } from './fixtures/use-kafka.ts'
import { type ConsumeKafkaOptions, consumeKafka } from './index.ts'

describe.skipIf(skipped('kafka'))('offsets as identity', () => {
  const kit = useKafka()
  let consumers = 0

  /** Workers of one consumer, that share its inbox. */
  function setUp(handler: Handler<Order> = () => undefined) {
    consumers += 1
    const consumer = `fenced-${process.pid}-${Date.now()}-${consumers}`
    const inbox: Inbox<undefined> = memoryInbox()
    /** Places of the records whose effects were committed. */
    const processed: string[] = []
    const worker = () =>
      guardOf(handler, {
        ...{ consumer, inbox, transaction: 'batch', retry: { baseMs: 100, attempts: 20 } },
        observe: ({ settlement, source }) => {
          if (settlement.kind === 'ack' && settlement.by === 'processed')
            processed.push(source.position ?? '')
        },
      })
    const start = (topic: string, options: Partial<ConsumeKafkaOptions> = {}) =>
      consumeKafka(kit.topics.client(), worker(), {
        ...{ topics: [topic], identity: 'offsets', ...options },
      })
    return { consumer, processed, start }
  }

  test('each record runs once, wherever the group says that it is', async () => {
    const topic = await kit.topics.create(2)
    const { consumer, processed, start } = setUp()
    await kit.topics.send(topic, range(40))
    await using first = await start(topic)
    await until(() => processed.length === 40)
    await kit.topics.caughtUp(consumer, topic)
    await first.drain()
    await kit.topics.move(consumer, topic, 'start')
    await kit.topics.send(topic, ['late'])
    await using second = await start(topic)
    await until(() => processed.length === 41)
    await second.drain()
    // Ahead of what was processed.
    await kit.topics.send(topic, ['skipped-1', 'skipped-2', 'skipped-3', 'skipped-4'])
    await kit.topics.move(consumer, topic, 'end')
    await using _ = await start(topic)
    await kit.topics.send(topic, ['last-1', 'last-2', 'last-3', 'last-4'])
    await until(() => processed.length === 49)
    expect(new Set(processed).size).toBe(49)
  })

  test('records that fail wait, die and are passed, and a rebalance changes nothing of it', async () => {
    const topic = await kit.topics.create(3)
    let isSound = false
    const { processed, start } = setUp(({ payload: { key } }) => {
      if (key === 'k-7') throw new FatalError('never')
      if (!isSound && key === 'k-9') throw new Error('not yet')
    })
    const keys = range(60).map((_, n) => `k-${n}`)
    await kit.topics.send(topic, keys)
    await using one = await start(topic)
    await until(() => processed.length >= 20)
    await using _ = await start(topic)
    isSound = true
    await until(() => processed.length === 59, { deadlineMs: 45_000 })
    expect(new Set(processed).size).toBe(59)
    expect(one.health().state).not.toBe('stopped')
  })

  test('a topic that was created again is refused', async () => {
    const topic = await kit.topics.create(1)
    const { processed, start } = setUp()
    await kit.topics.send(topic, range(3))
    await using first = await start(topic)
    await until(() => processed.length === 3)
    await first.drain()
    await kit.topics.recreate(topic)
    await kit.topics.sendAfresh(topic, range(3))
    await using again = await start(topic)
    await expect(again.stopped).rejects.toThrow('deleted and created again')
    expect(processed.length).toBe(3)
  })
})
