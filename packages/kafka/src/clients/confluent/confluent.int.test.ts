// @module-tag nightly

import { inspect } from 'node:util'
import type { Handler } from '@onceward/core'
import { FatalError, RetryableError } from '@onceward/core'
import { type MemoryInbox, memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { guardOf, type Order } from '@onceward/testing/adapter'
import { silent } from '@onceward/testing/conformance'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { isConfluentBuilt } from '../../fixtures/confluent-built.ts'
import { billing, range, useKafka } from '../../fixtures/use-kafka.ts'
import { consumeKafka } from '../../index.ts'
import { confluent } from './index.ts'

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const PROTOCOLS = ['classic', 'consumer'] as const

describe.skipIf(skipped('kafka') || !isConfluentBuilt())('confluent on a real Kafka', () => {
  const kit = useKafka()

  const client = (more: Readonly<Record<string, unknown>> = {}) =>
    confluent({ 'bootstrap.servers': kit.server.connection.brokers.join(), ...more })

  describe.each(PROTOCOLS)('in the %s protocol', (protocol) => {
    const own = { 'group.protocol': protocol }

    // Red when `onRevoked` is not awaited, or commits are sent for partitions that are gone.
    test('rolling restarts under load lose no event and repeat none', async () => {
      const { topics } = kit
      const topic = await topics.create(4)
      const name = topics.name('billing')
      const inbox: MemoryInbox<undefined> = memoryInbox()
      const effects = new Map<string, number>()
      const handler: Handler<Order> = async ({ payload: { key } }) => {
        await pause(Math.random() * 5)
        effects.set(key, (effects.get(key) ?? 0) + 1)
      }
      const join = () =>
        consumeKafka(client(own), guardOf(handler, { consumer: name }, inbox), { topics: [topic] })
      const keys = range(1_500)
      const members = [await join(), await join(), await join()]
      const producing = (async () => {
        for (let at = 0; at < keys.length; at += 50) {
          await topics.send(topic, keys.slice(at, at + 50))
          await pause(100)
        }
      })()
      for (let round = 0; round < 4; round += 1) {
        await members.shift()?.drain()
        members.push(await join())
      }
      await producing
      await topics.caughtUp(name, topic)
      await Promise.all(members.map((member) => member.drain()))
      expect(effects.size).toBe(keys.length)
      expect([...effects.values()].filter((count) => count !== 1)).toEqual([])
    })
  })

  // Red when records of a paused partition that were under way are dropped.
  test('a deferred record holds 3 000 records of its partition in bounds, and none is lost', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const keys = range(3_000)
    await topics.send(topic, keys)
    const ran: string[] = []
    let attempts = 0
    const guard = billing(
      ({ payload: { key } }) => {
        if (key === 'order-0') attempts += 1
        if (key === 'order-0' && attempts < 3)
          throw new RetryableError('not now', { afterMs: 1_000 })
        ran.push(key)
      },
      { concurrency: 16 },
    )
    await using consumption = await consumeKafka(client(), guard, { topics: [topic] })
    await until(() => ran.length > 900)
    expect(consumption.health().inFlight).toBeLessThan(2_100)
    await topics.caughtUp(guard.consumer, topic)
    expect(new Set(ran).size).toBe(keys.length)
    expect(ran.length).toBe(keys.length)
  })

  test('transactions: aborted records are hidden, and the offset passes their marks', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using _ = await consumeKafka(client(), guard, { topics: [topic] })
    for (const verb of ['abort', 'commit'] as const) {
      await using transaction = await topics.transaction(topic)
      await transaction.send(verb)
      await transaction[verb]()
    }
    // Kafka ends a transaction after it has answered, and the topic looks empty until then.
    await until(() => ran.length > 0)
    await topics.caughtUp(guard.consumer, topic)
    expect(ran).toEqual(['commit'])
  })

  test('a new group with `fromBeginning: false` starts at the end, and added partitions at their beginning', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    await topics.send(topic, ['old'])
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    const options = { topics: [topic], fromBeginning: false }
    {
      await using _ = await consumeKafka(client(), guard, options)
    }
    await topics.send(topic, ['new'])
    await using _ = await consumeKafka(
      client({ 'topic.metadata.refresh.interval.ms': 1_000 }),
      guard,
      options,
    )
    await topics.addPartitions(topic, 2)
    await topics.sendAfresh(topic, ['added'], () => ({ partition: 1 }))
    await until(() => ran.length >= 2)
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual(['added', 'new'])
  })

  // Red before: the error had no name that means anything, and none of the 41 dead letters was published.
  test('a dead letter that its topic refuses is told, and keeps no other one waiting', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const dead = await topics.create(1, { 'cleanup.policy': 'compact' }, topics.name('dead'))
    let lines = ''
    const note = (...line: unknown[]): void => {
      lines += inspect(line)
    }
    const ran: string[] = []
    const guard = billing(
      ({ payload: { key } }) => {
        ran.push(key)
        if (key !== 'good') throw new FatalError('not payable')
      },
      { logger: { ...silent, error: note, warn: note } },
    )
    // A compacted topic takes no record without a key.
    await topics.send(topic, ['bare'], () => ({ key: null }))
    await topics.send(topic, [...range(40, 'dead'), 'good'])
    await using consumption = await consumeKafka(client(), guard, {
      topics: [topic],
      deadLetter: { topic: dead },
    })
    const letters = await topics.read(dead, 40)
    expect(letters.map(({ key }) => String(key)).toSorted()).toEqual(range(40, 'dead').toSorted())
    await until(() => ran.includes('good'))
    await expect.poll(() => lines, { timeout: 30_000 }).toContain('INVALID_RECORD')
    expect(consumption.health().state).toBe('running')
  })
})
