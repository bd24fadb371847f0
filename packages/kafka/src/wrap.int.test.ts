import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import type { Consumer } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { type WrappedKafka, wrapKafka } from './index.ts'

describe.skipIf(skipped('kafka'))('wrapKafka on a real Kafka', () => {
  const kit = useKafka()
  const timing = { sessionTimeout: 6_000, heartbeatInterval: 1_000, maxWaitTimeInMs: 500 }

  test('the result of wrapKafka is a run configuration for a consumer of the user', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    const ran: string[] = []
    let failures = 0
    const guard = billing(
      ({ payload: { key } }) => {
        if (key === 'order-7' && failures < 2) {
          failures += 1
          throw new TypeError('not yet')
        }
        ran.push(key)
      },
      { retry: { baseMs: 50 } },
    )
    const consumer = topics.client().consumer({ groupId: guard.consumer, ...timing })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run(wrapKafka(consumer, guard))
    const keys = range(50)
    await topics.send(topic, [...keys, ...keys.slice(0, 10)])
    await topics.caughtUp(guard.consumer, topic)
    await consumer.stop()
    await guard.close()
    await consumer.disconnect()
    expect(ran.toSorted()).toEqual(keys.toSorted())
    expect(failures).toBe(2)
  })

  // Red when a drain starts more records, or leaves the offset of a running one uncommitted.
  test('a drain commits what its handlers finish, and the next consumer gets the rest', async () => {
    const { topics } = kit
    const topic = await topics.create(1)
    const keys = range(20)
    const rest = range(5, 'rest')
    await topics.send(topic, [...keys, 'slow', ...rest], (key) => ({
      key: keys.includes(key) ? key : 'one lane',
    }))
    const ran: string[] = []
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const guard = billing(async ({ payload: { key } }) => {
      if (key === 'slow') await released
      ran.push(key)
    })
    const run = async (): Promise<readonly [Consumer, WrappedKafka]> => {
      const consumer = topics.client().consumer({ groupId: guard.consumer, ...timing })
      const wrapped = wrapKafka(consumer, guard)
      await consumer.connect()
      await consumer.subscribe({ topics: [topic], fromBeginning: true })
      await consumer.run(wrapped)
      return [consumer, wrapped]
    }
    const [first, { consumption }] = await run()
    await until(() => ran.length === keys.length && consumption.health().inFlight === 6)
    expect(consumption.health().state).toBe('running')
    const drained = consumption.drain()
    release()
    await drained
    expect(ran).toEqual([...keys, 'slow'])
    expect(await topics.committed(guard.consumer, topic)).toEqual([keys.length + 1])
    expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0 })
    await first.disconnect()
    const [second, wrapped] = await run()
    await topics.caughtUp(guard.consumer, topic)
    await wrapped.consumption.drain()
    await second.disconnect()
    await guard.close()
    expect(ran).toEqual([...keys, 'slow', ...rest])
  })
})
