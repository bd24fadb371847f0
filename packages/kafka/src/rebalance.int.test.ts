import { type Consumption, type Handler, RetryableError } from '@onceward/core'
import { type MemoryInbox, memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { guardOf, type Order } from '@onceward/testing/adapter'
import { skipped } from '@onceward/testing/servers'
import { describe, expect, test } from 'vitest'
import { onEvent } from './fixtures/topics.ts'
import { billing, range, useKafka } from './fixtures/use-kafka.ts'
import { type ConsumeKafkaOptions, consumeKafka } from './index.ts'

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe.skipIf(skipped('kafka'))('members of one group on a real Kafka', () => {
  const kit = useKafka()

  interface Group {
    readonly name: string
    readonly topic: string
    readonly inbox: MemoryInbox<undefined>
    /** @param joins - Gets the id of the member at each of its joins. */
    join(
      handler: Handler<Order>,
      options?: Partial<ConsumeKafkaOptions>,
      joins?: string[],
    ): Promise<Consumption>
  }

  /** Members as in separate processes: each has a client and a guard, and all share one store. */
  async function groupOf(partitions: number): Promise<Group> {
    const { topics } = kit
    const topic = await topics.create(partitions)
    const name = topics.name('billing')
    const inbox = memoryInbox()
    const join: Group['join'] = (handler, { consumer, ...options } = {}, joins = []) => {
      const client = topics.client()
      onEvent(client, 'GROUP_JOIN', ({ payload }) => void joins.push(String(payload['memberId'])))
      return consumeKafka(client, guardOf(handler, { consumer: name }, inbox), {
        topics: [topic],
        ...options,
        consumer: {
          sessionTimeout: 20_000,
          heartbeatInterval: 500,
          rebalanceTimeout: 8_000,
          ...consumer,
        },
      })
    }
    return { name, topic, inbox, join }
  }

  // Red when handlers outlive the loss of their partition: the old and the new owner's handlers run together.
  test('K9: the handlers of a partition that moves are aborted, and those of one that stays are not', async () => {
    const { topics } = kit
    const { name, topic, join } = await groupOf(2)
    for (const partition of [0, 1])
      await topics.send(topic, [`slow-${partition}`], () => ({ partition }))
    const signals = new Map<number, AbortSignal>()
    const ended: string[] = []
    const release = Promise.withResolvers<void>()
    await using _first = await join(async ({ payload: { key }, source }, { signal }) => {
      signals.set(Number(source.position?.split('/')[0]), signal)
      const aborted = new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
      await Promise.race([release.promise, aborted])
      if (signal.aborted) throw signal.reason
      ended.push(`first ${key}`)
    })
    await until(() => signals.size === 2)
    await using _second = await join(({ payload: { key } }) => void ended.push(`second ${key}`))
    await until(() => [...signals.values()].some(({ aborted }) => aborted))
    const [moved] = [...signals].find(([, { aborted }]) => aborted) ?? []
    await until(() => ended.length === 1)
    expect(ended).toEqual([`second slow-${moved}`])
    release.resolve()
    await topics.caughtUp(name, topic)
    expect(ended).toEqual([`second slow-${moved}`, `first slow-${moved === 0 ? 1 : 0}`])
  })

  // Red when the rejoin waits for the handler: the member is expelled, and joins as another one. Red too when the error
  // of a commit reaches kafkajs in its wrapper: the consumer is over then, and its successor is another member (K6).
  test('K6, K7: a group does not wait for a handler that outlasts the rebalance timeout', async () => {
    const { topics } = kit
    const { name, topic, join } = await groupOf(1)
    await topics.send(topic, ['slow', 'next'], () => ({ key: 'one lane' }))
    const ran: string[] = []
    const started = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const handler: Handler<Order> = async ({ payload: { key }, attempt }) => {
      started.resolve()
      if (key === 'slow') await release.promise
      ran.push(`${key}:${attempt}`)
    }
    const consumer = { rebalanceTimeout: 3_000 }
    const joins: string[] = []
    await using _first = await join(handler, { consumer }, joins)
    await started.promise
    await using _second = await join(handler, { consumer })
    await until(() => joins.length >= 2)
    release.resolve()
    await topics.caughtUp(name, topic)
    expect(ran.map((run) => run.split(':')[0]).toSorted()).toEqual(['next', 'slow'])
    expect(new Set(joins).size).toBe(1)
  })

  test('rolling restarts under load lose no event and repeat none', async () => {
    const { topics } = kit
    const { name, topic, join } = await groupOf(4)
    const effects = new Map<string, number>()
    const handler: Handler<Order> = async ({ payload: { key } }) => {
      await pause(Math.random() * 5)
      effects.set(key, (effects.get(key) ?? 0) + 1)
    }
    const keys = range(1_500)
    const members = [await join(handler), await join(handler), await join(handler)]
    const producing = (async () => {
      for (let at = 0; at < keys.length; at += 50) {
        const part = keys.slice(at, at + 50)
        await topics.send(topic, [...part, ...part.slice(0, 5)])
        await pause(100)
      }
    })()
    for (let round = 0; round < 4; round += 1) {
      await members.shift()?.drain()
      members.push(await join(handler))
    }
    await producing
    await topics.caughtUp(name, topic)
    await Promise.all(members.map((member) => member.drain()))
    expect(effects.size).toBe(keys.length)
    expect([...effects.values()].every((count) => count === 1)).toBe(true)
  })

  // Red when kafkajs's own heartbeats, one for each fetch, are the only ones (brokers.md finding 13).
  test('K4, K19: a member whose partitions are all paused stays in the group', async () => {
    const { topics } = kit
    const { topic, name } = await groupOf(1)
    await topics.send(topic, ['late'])
    const client = topics.client()
    const joins: unknown[] = []
    onEvent(client, 'GROUP_JOIN', (event) => void joins.push(event))
    let attempts = 0
    const handler = (): void => {
      attempts += 1
      if (attempts === 1) throw new RetryableError('not now', { afterMs: 9_000 })
    }
    const guard = guardOf(handler, { consumer: name })
    await using _ = await consumeKafka(client, guard, {
      topics: [topic],
      consumer: { sessionTimeout: 6_000 },
    })
    await topics.caughtUp(name, topic)
    expect([joins.length, attempts]).toEqual([1, 2])
  })

  // Red when the assigner of kafkajs decides: it gives the topic of the leader to both, and that of the other to none.
  test('two consumers of one guard with different topics consume all of both', async () => {
    const { topics } = kit
    const [one, two] = [await topics.create(2), await topics.create(2)]
    const ran: string[] = []
    const guard = billing(({ payload }) => void ran.push(payload.key))
    await using _one = await consumeKafka(topics.client(), guard, { topics: [one] })
    await using _two = await consumeKafka(topics.client(), guard, { topics: [two] })
    await topics.send(one, range(10, 'one'))
    await topics.send(two, range(10, 'two'))
    await topics.caughtUp(guard.consumer, one)
    await topics.caughtUp(guard.consumer, two)
    expect(ran.toSorted()).toEqual([...range(10, 'one'), ...range(10, 'two')])
  })
})
