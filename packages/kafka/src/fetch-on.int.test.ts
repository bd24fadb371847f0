// @module-tag nightly

import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka, wrapKafka } from './index.ts'

/** Retries soon, and for as long as a test may take. */
const retry = { attempts: 1_000, baseMs: 50, maxMs: 500 }
/** `maxWaitTimeInMs` where nobody sets it. */
const KAFKAJS_WAIT_MS = 5_000

describe.skipIf(skipped('kafka'))('partitions whose records wait', () => {
  const kit = useKafka()

  // Red when a deferred record holds its partition: the record fails until records of later fetches have run.
  test('later fetches run past a deferred record, which holds back only its key', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const others = range(20, 'other')
    const ran: string[] = []
    let isBad = true
    const guard = billing(
      ({ payload: { key } }) => {
        if (key === 'bad' && isBad) throw new Error('no')
        ran.push(key)
      },
      { retry },
    )
    await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.send(topic, ['bad', 'after-0'], () => ({ key: 'one lane' }))
    for (const [at, other] of others.entries()) {
      await topics.send(topic, [other])
      await until(() => ran.includes(other))
      expect((await topics.committed(guard.consumer, topic))[0]).toBeLessThanOrEqual(0)
      await topics.send(topic, [`after-${at + 1}`], () => ({ key: 'one lane' }))
    }
    isBad = false
    await topics.caughtUp(guard.consumer, topic)
    expect(ran).toEqual([...others, 'bad', ...range(others.length + 1, 'after')])
  })

  // Red when a partition with a deferred record counts as one in hand: kafkajs waits and fetches nothing any more.
  test('deferred records of several partitions do not hold the consumer', async () => {
    const { topics } = kit
    const topic = await topics.create(4)
    const ran: string[] = []
    const failed = new Set<string>()
    const guard = billing(
      ({ payload: { key } }) => {
        if (key.startsWith('bad') && !ran.includes('good')) {
          failed.add(key)
          throw new Error('no')
        }
        ran.push(key)
      },
      { retry },
    )
    await using _ = await consumeKafka(topics.client(), guard, {
      topics: [topic],
      partitionsConsumedConcurrently: 1,
    })
    await topics.send(topic, range(3, 'bad'), (key) => ({ partition: Number(key.at(-1)) }))
    await until(() => failed.size === 3)
    await topics.send(topic, ['good'], () => ({ partition: 3 }))
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual(['bad-0', 'bad-1', 'bad-2', 'good'])
  })

  // Red when a slow record pauses its partition: kafkajs is in a fetch without it or sleeps, for `maxWaitTimeInMs`, before
  // it reads the next record.
  test.each(['each', 'batch'] as const)(
    'B9: at a low rate no wrapped partition is ever paused, transaction %s',
    async (transaction) => {
      const { topics } = kit
      const topic = await topics.create(2)
      const ran: string[] = []
      const guard = billing(
        async ({ payload }) => {
          await new Promise((resolve) => setTimeout(resolve, 600))
          ran.push(payload.key)
        },
        { transaction },
      )
      const consumer = topics.client().consumer({ groupId: guard.consumer, sessionTimeout: 6_000 })
      const paused: unknown[] = []
      const pause = consumer.pause.bind(consumer)
      consumer.pause = (partitions) => {
        paused.push(...partitions)
        pause(partitions)
      }
      await consumer.connect()
      await consumer.subscribe({ topics: [topic], fromBeginning: true })
      await consumer.run(wrapKafka(consumer, guard))
      for (const key of range(6)) {
        await topics.send(topic, [key], () => ({ partition: 0 }))
        await until(() => ran.includes(key))
      }
      await topics.caughtUp(guard.consumer, topic)
      await consumer.stop()
      await guard.close()
      await consumer.disconnect()
      expect([ran, paused]).toEqual([range(6), []])
    },
  )

  // Red when a partition is paused while its record runs: the next record waits for a fetch that brings nothing, which
  // takes the whole 5 s.
  test('B9: with the default settings of kafkajs no record waits for a fetch that brings nothing', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const ran: string[] = []
    const guard = billing(async ({ payload }) => {
      // Quick handlers, and handlers for which kafkajs stops to wait.
      await new Promise((resolve) => setTimeout(resolve, Number(payload.key.split(':')[1])))
      ran.push(payload.key)
    })
    const consumer = topics.client().consumer({ groupId: guard.consumer })
    let [sent, handed] = [0, 0]
    const waits: unknown[] = []
    consumer.on(consumer.events.FETCH, ({ payload: { numberOfBatches, duration } }) => {
      // One that answers at once costs nothing.
      const isLong = duration > KAFKAJS_WAIT_MS / 2
      if (isLong && numberOfBatches === 0 && handed < sent) waits.push({ sent, handed, duration })
    })
    const wrapped = wrapKafka(consumer, guard)
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      ...wrapped,
      eachBatch: (payload) => {
        handed += payload.batch.messages.length
        return wrapped.eachBatch?.(payload) ?? Promise.resolve()
      },
    })
    const schedule = fc.sample(fc.tuple(fc.nat(400), fc.nat(900), fc.nat(1)), 20)
    const keys = schedule.map(([, workMs], at) => `${at}:${workMs}`)
    for (const [at, [pauseMs, , partition]] of schedule.entries()) {
      await topics.send(topic, [keys[at] as string], () => ({ partition }))
      sent += 1
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
    await topics.caughtUp(guard.consumer, topic)
    await wrapped.consumption.drain()
    await guard.close()
    await consumer.disconnect()
    expect(ran.toSorted()).toEqual(keys.toSorted())
    expect(waits).toEqual([])
  })
})
