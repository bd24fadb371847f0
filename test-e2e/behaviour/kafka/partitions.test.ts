// @module-tag nightly

import { skipped } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RunningBroker } from '../../brokers/broker.ts'
import { PARTITIONS, type Topic, type TopicOptions } from '../../brokers/kafka/queue.ts'
import { startKafka } from '../../brokers/kafka/server.ts'
import { endsWithEverythingOnce } from '../../support/audit.ts'
import { effectsReach, orders } from '../../support/effects.ts'
import { Testbed } from '../../support/testbed.ts'
import type { Order, WorkerConfig } from '../../support/workers/protocol.ts'

const SESSION_MS = 2_000

/** Longer than a busy machine stops a process for: this test is about a member that is never removed. */
const KEPT_SESSION_MS = 5_000
/** The handler takes much longer than the session of its member. */
const SLOW = { id: 'order-slow', takesMs: 3 * KEPT_SESSION_MS } as const

describe.skipIf(skipped('kafka')).concurrent('Kafka', () => {
  let broker: RunningBroker<Topic, TopicOptions>
  beforeAll(async () => {
    broker = await startKafka()
  })
  afterAll(() => broker?.server.stop())

  const openTopic = (sessionMs = SESSION_MS): Promise<Topic> => broker.createQueue({ sessionMs })
  const openTestbed = (queue: Topic, worker: Partial<WorkerConfig> = {}): Promise<Testbed> =>
    Testbed.open({ queue, worker: { transaction: 'each', concurrency: 4, ...worker } })

  /*
   * Orders go to each of the other partitions, one after the effect of the one before. Red when an error reaches
   * kafkajs: it then fetches nothing until its next try, so that each step costs an attempt of the poison message.
   * A step without such an attempt is a delivery that the poison message did not delay.
   */
  test('poison messages leave the others at least four fifths of the deliveries', async () => {
    const topic = await openTopic()
    await using testbed = await openTestbed(topic, {
      attempts: 30,
      retryBaseMs: 2_000,
      random: 0.99,
    })
    const worker = testbed.spawn('worker')
    await worker.start()
    const poison = { id: 'order-poison', deed: 'fail-always' } as const
    await topic.sendTo(0, [poison])
    await testbed.until(async () => (await testbed.state(poison.id)) === 'w', { what: 'a failure' })
    const steps = 50
    for (let step = 0; step < steps; step += 1) {
      for (let partition = 1; partition < PARTITIONS; partition += 1) {
        await topic.sendTo(partition, [{ id: `order-${step}-${partition}` }])
      }
      await effectsReach(testbed, (step + 1) * (PARTITIONS - 1))
    }

    const runs = (await testbed.runs()).filter(({ id }) => id === poison.id)
    expect(await testbed.state(poison.id)).toBe('w')
    expect(runs.length).toBeLessThan(steps / 5)
  })

  // Red when no heartbeat is sent while a handler runs: the owner loses its partition, and the event runs twice.
  test('a handler that is slower than the session stays in its group', async () => {
    const topic = await openTopic(KEPT_SESSION_MS)
    await using testbed = await openTestbed(topic)
    const workers = [testbed.spawn('one'), testbed.spawn('two')]
    for (const worker of workers) await worker.start()
    await topic.sendTo(0, [SLOW])
    await effectsReach(testbed, 1)

    expect(await testbed.runs()).toHaveLength(1)
    // A machine that stops everything for longer than the session costs both their place; they take it again.
    await testbed.until(async () => (await topic.members()) === 2, { what: 'both members' })
    await topic.sendTo(0, orders(3))
    await endsWithEverythingOnce(testbed, [SLOW, ...orders(3)])
  })

  // Red when an event that runs during a rebalance is acknowledged by no member, or by two.
  test('acceptance A15: a member that joins while handlers run doubles nothing and loses nothing', async () => {
    const topic = await openTopic()
    await using testbed = await openTestbed(topic)
    const all = orders(80, { takesMs: 400 })
    const first = testbed.spawn('first')
    const second = testbed.spawn('second')
    await first.start()
    await second.heard('ready')
    await topic.send(all)
    await effectsReach(testbed, 5)
    await second.start()
    await effectsReach(testbed, 20)
    const third = testbed.spawn('third')
    await third.start()

    await effectsReach(testbed, all.length)
    // A member may be joining the group again.
    await testbed.until(async () => (await topic.members()) === 3, { what: 'three members' })
    await endsWithEverythingOnce(testbed, all)
  })

  // Red when later records of a key overtake a deferred one, or when attempts of one lane run concurrently.
  test('the order of each key is kept with sixteen handlers and events that fail', async () => {
    const topic = await openTopic()
    await using testbed = await openTestbed(topic, {
      concurrency: 16,
      poolMax: 18,
      retryBaseMs: 20,
    })
    const all = Array.from({ length: 200 }, (_, index): Order => {
      const lane = `customer-${index % 20}`
      const deed = index % 7 === 0 ? 'fail-once' : undefined
      return { id: `order-${index}`, lane, deed }
    })
    const workers = [testbed.spawn('one'), testbed.spawn('two')]
    await Promise.all(workers.map((worker) => worker.start()))
    await topic.send(all)

    await endsWithEverythingOnce(testbed, all)
    const { rows } = await testbed.pool.query<{ id: string }>(
      'select id from effects order by place',
    )
    for (let lane = 0; lane < 20; lane += 1) {
      const done = rows.map(({ id }) => Number(id.slice('order-'.length)))
      const ofLane = done.filter((index) => index % 20 === lane)
      expect(ofLane).toEqual(ofLane.toSorted((a, b) => a - b))
    }
  })

  // Red when a position is only topic, partition and offset: a topic that is created again has the same offsets.
  test('trap T38: events of a topic that is deleted and created again are not duplicates of the earlier ones', async () => {
    const topic = await openTopic()
    await using testbed = await openTestbed(topic)
    const worker = testbed.spawn('worker', { identity: 'position' })
    await worker.start()
    await topic.sendTo(0, orders(5))
    await effectsReach(testbed, 5)
    await testbed.drained()
    await topic.remove()
    await topic.create()
    const others = Array.from({ length: 12 }, (_, index) => ({ id: `order-new-${index}` }))
    await topic.sendTo(0, others)

    await endsWithEverythingOnce(testbed, [...orders(5), ...others])
  })

  // Red when two guards of one topic share a consumer group: each would see half of the records.
  test('trap T39: two consumers on one topic each get all events', async () => {
    const topic = await openTopic()
    await using testbed = await openTestbed(topic)
    const { groupId: _, ...source } = topic.source
    const billing = testbed.spawn('billing', { consumer: `${topic.source.topic}-billing`, source })
    const mail = testbed.spawn('mail', { consumer: `${topic.source.topic}-mail`, source })
    await Promise.all([billing.start(), mail.start()])
    await topic.send(orders(40))
    const done = async (): Promise<boolean> =>
      [billing, mail].every(
        ({ settled }) => settled.filter(({ why }) => why === 'processed').length === 40,
      )
    await testbed.until(done, { what: 'everything by both' })

    expect(await Promise.all([billing.stop(), mail.stop()])).toEqual([0, 0])
    expect(Object.values(await testbed.effects())).toEqual(orders(40).map(() => 2))
  })
})
