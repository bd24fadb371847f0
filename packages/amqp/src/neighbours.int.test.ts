import { type RabbitmqConnection, rabbitmq, type Server, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { connect } from 'amqplib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Broker, type QueueType } from './fixtures/broker.ts'
import { downInbox } from './fixtures/down-inbox.ts'
import { type Consumption, consumeAmqp } from './index.ts'

let server: Server<RabbitmqConnection>
let broker: Broker

beforeAll(async () => {
  server = await rabbitmq()
  broker = await Broker.connect(server.connection.url)
}, 200_000)
afterAll(async () => {
  await broker[Symbol.asyncDispose]()
  await server.stop()
})

const open = () => connect(server.connection.url)
const TYPES: readonly QueueType[] = ['classic', 'quorum']

async function isEmpty(queue: string, consumption: Consumption): Promise<boolean> {
  return (await broker.ready(queue)) === 0 && consumption.health().inFlight === 0
}

// Red when the consumer is cancelled meanwhile: the queue and all that is in it go.
test.each(TYPES)(
  'trap B4: a %s queue that expires without a consumer outlives an outage of the store, with its messages',
  async (type) => {
    const queue = await broker.create(type, { 'x-expires': 1_500 })
    const inbox = downInbox()
    const done: string[] = []
    const guard = guardOf(({ key }) => void done.push(key), { concurrency: 1 }, inbox)
    await using consumption = await consumeAmqp(open, guard, { queue })
    inbox.isDown = true
    const keys = Array.from({ length: 20 }, (_, n) => `k-${n}`)
    await broker.send(queue, keys)
    await until(() => consumption.health().state === 'paused')
    expect(consumption.health().reason).toContain('injected')
    const since = performance.now()
    await until(() => performance.now() - since > 4_000, { everyMs: 100 })
    expect(await broker.consumers(queue)).toBe(1)
    inbox.isDown = false
    await until(() => done.length === 20)
    expect(done.toSorted()).toEqual(keys.toSorted())
  },
)

// Red with a fixed prefetch: one consumer has all messages in hand and runs them one by one.
test.each(TYPES)(
  'trap B6: two consumers share a %s queue of slow messages, and a fast one is not held up',
  async (type) => {
    const queue = await broker.create(type)
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
    await broker.send(queue, ['a', 'b', 'c'])
    await using first = await consumeAmqp(open, guardFor(), { queue })
    await until(() => running.size === 1)
    await using second = await consumeAmqp(open, guardFor(), { queue })
    await until(() => running.size === 2)
    expect([first, second].map((each) => each.health().inFlight)).toEqual([1, 1])
    expect(await broker.ready(queue)).toBe(1)
    gate.resolve()
    await until(async () => running.size === 3 && (await isEmpty(queue, first)))
    await broker.send(
      queue,
      Array.from({ length: 500 }, (_, n) => `k-${n}`),
    )
    await until(async () => running.size === 503 && (await isEmpty(queue, second)))
  },
)
