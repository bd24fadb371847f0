import { until } from '@onceward/testing'
import { skipped } from '@onceward/testing/servers'
import { type Kafka, logLevel } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { onEvent, type Topics } from './fixtures/topics.ts'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { consumeKafka } from './index.ts'

describe.skipIf(skipped('kafka'))('consumeKafka with failing, slow and hanging handlers', () => {
  const kit = useKafka()

  test.each([
    [
      'K5: a TypeError',
      () => {
        throw new TypeError('of undefined')
      },
    ],
    [
      'K5: retriable: false',
      () => {
        throw Object.assign(new Error('no'), { retriable: false })
      },
    ],
    ['K5: a rejection with undefined', () => Promise.reject(undefined)],
    [
      'K3: six failures and more',
      () => {
        throw new Error('again')
      },
    ],
  ])('%s does not end the consumer, and later records are consumed', async (_what, fail) => {
    const { topics } = kit
    const topic = await topics.create()
    // kafkajs counts errors of its callback, even with successes in between, and crashes at the sixth (K3).
    const { client, errors } = telling(topics)
    const crashes: unknown[] = []
    onEvent(client, 'CRASH', (event) => void crashes.push(event))
    const ran: string[] = []
    const guard = billing(
      ({ payload: { key } }) => (key.startsWith('bad') ? fail() : void ran.push(key)),
      { retry: { attempts: 2, baseMs: 1 } },
    )
    await using _ = await consumeKafka(client, guard, { topics: [topic] })
    const good = range(8, 'good')
    for (const [done, bad] of range(8, 'bad').entries()) {
      await topics.send(topic, [bad, ...good.slice(done, done + 1)])
      await until(() => ran.length === done + 1)
    }
    await topics.caughtUp(guard.consumer, topic)
    expect([ran, crashes, errors]).toEqual([good, [], []])
  })

  // Red when nobody counts its deliveries: it is tried for ever, and the offset of its partition waits for it.
  test('a record without an event key whose handler always fails is dead-lettered when its attempts are spent', async () => {
    const { topics } = kit
    const topic = await topics.create()
    await topics.send(topic, ['bad', 'good'])
    const ran: string[] = []
    const guard = billing(
      ({ attempt, payload: { key } }) => {
        ran.push(`${key}:${attempt}`)
        if (key === 'bad') throw new Error('no')
      },
      { eventKey: () => undefined, onMissingKey: 'unguarded', retry: { attempts: 3, baseMs: 1 } },
    )
    await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.toSorted()).toEqual(['bad:1', 'bad:2', 'bad:3', 'good:1'])
  })

  test('a handler that never settles is ended by its deadline, and other records are consumed', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    await topics.send(topic, ['stuck'], () => ({ partition: 0 }))
    await topics.send(topic, range(20), () => ({ partition: 1 }))
    const ran: string[] = []
    const guard = billing(
      ({ payload: { key } }) => {
        if (key === 'stuck') return new Promise<void>(() => undefined)
        ran.push(key)
        return undefined
      },
      { deadlineMs: 2_000, retry: { attempts: 1 } },
    )
    await using _ = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await topics.caughtUp(guard.consumer, topic)
    expect(ran).toHaveLength(20)
  })

  test('a handler slower than the session stays in the group, and blocks no other partition', async () => {
    const { topics } = kit
    const topic = await topics.create(2)
    await topics.send(topic, ['slow'], () => ({ partition: 0 }))
    await topics.send(topic, range(5), () => ({ partition: 1 }))
    const ran: string[] = []
    const started = Promise.withResolvers<void>()
    const guard = billing(async ({ payload: { key }, attempt }) => {
      if (key === 'slow') {
        started.resolve()
        await new Promise((resolve) => setTimeout(resolve, 4_000))
      }
      ran.push(`${key}:${attempt}`)
    })
    await using consumption = await consumeKafka(topics.client(), guard, {
      topics: [topic],
      consumer: { sessionTimeout: 1_500 },
    })
    await started.promise
    await topics.send(topic, range(5, 'more'), () => ({ partition: 1 }))
    await until(() => ran.length === 10)
    expect(ran).not.toContain('slow:1')
    await topics.caughtUp(guard.consumer, topic)
    expect(ran.filter((key) => key.startsWith('slow'))).toEqual(['slow:1'])
    expect(consumption.health().state).toBe('running')
  })

  test('closing the guard stops its consumer, without a hot loop', async () => {
    const { topics } = kit
    const topic = await topics.create()
    const guard = billing(() => undefined)
    const consumption = await consumeKafka(topics.client(), guard, { topics: [topic] })
    await guard.close()
    await topics.send(topic, ['late'])
    await consumption.stopped
    expect(await topics.committed(guard.consumer, topic)).toEqual([-1])
    expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0 })
  })
})

/** A client, and the log of kafkajs about callbacks that throw. */
function telling(topics: Topics): { readonly client: Kafka; readonly errors: readonly string[] } {
  const errors: string[] = []
  const client = topics.client({
    logLevel: logLevel.ERROR,
    logCreator:
      () =>
      ({ log: { message } }) => {
        if (/calling each(Batch|Message)/.test(message)) errors.push(message)
      },
  })
  return { client, errors }
}
