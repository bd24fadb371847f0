import { jetstreamManager } from '@nats-io/jetstream'
import { FatalError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { systemRuntime } from '@onceward/core/ports'
import { until } from '@onceward/testing'
import { deadLetterOf, guardOf } from '@onceward/testing/adapter'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createNatsApi } from './clients/nats-api.ts'
import { createPublisher } from './dead-letter.ts'
import { pulled } from './fixtures/hand-made-api.ts'
import { connectTo, type JetStream, startJetStream } from './fixtures/jetstream.ts'
import { consumeNats, fromNatsMessage } from './index.ts'

let server: JetStream

beforeAll(async () => {
  server = await startJetStream()
})
afterAll(() => server[Symbol.asyncDispose]())

const consumer = 'billing'
const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`)
const isSettled = async (stream: string): Promise<boolean> => (await server.unsettled(stream)) === 0

test.each(['each', 'batch'] as const)(
  'with transactions of %s every message is processed once, copies included, and all are settled',
  async (transaction) => {
    const stream = await server.open({})
    const keys = keysOf(200)
    await server.send(stream, [...keys, ...keys.slice(0, 50)])
    const runs: string[] = []
    const guard = guardOf((event) => void runs.push(event.payload.key), { transaction })
    await using consumption = await consumeNats(server.connection, guard, { stream, consumer })
    await until(() => isSettled(stream))
    expect(runs.toSorted()).toEqual(keys.toSorted())
    expect(consumption.health()).toMatchObject({ state: 'running', settleFailures: 0 })
  },
)

test('a failed event waits at the server, and a dead one is published with its reason and without orders', async () => {
  const dead = await server.open({})
  const stream = await server.open({})
  const attempts: Record<string, number> = {}
  const guard = guardOf(
    (event) => {
      attempts[event.payload.key] = event.attempt
      if (event.payload.key === 'fatal') throw new FatalError('no such order')
      if (event.attempt === 1) throw new Error('not yet')
    },
    { retry: { attempts: 2, baseMs: 0 } },
  )
  await server.send(stream, ['again', 'fatal'])
  await using _ = await consumeNats(server.connection, guard, {
    ...{ stream, consumer, deadLetter: { stream: dead } },
  })
  await until(() => isSettled(stream))
  expect(attempts).toEqual({ again: 2, fatal: 1 })
  const letters = await server.stored(dead)
  expect(letters).toEqual([
    {
      subject: `${dead}.${stream}.orders`,
      body: '{"key":"fatal"}',
      headers: expect.objectContaining({
        'Idempotency-Key': 'fatal',
        'x-onceward-reason': 'fatal',
        'x-onceward-nats-subject': `${stream}.orders`,
      }),
    },
  ])
})

test('a dead letter that is published again is there once, and that of an event that died again is another one', async () => {
  const dead = await server.open({})
  const settings = { stream: dead, consumer, domain: undefined }
  const api = createNatsApi(server.connection, settings, systemRuntime)
  const publish = createPublisher(api, { stream: dead })
  const delivery = fromNatsMessage(pulled())
  await publish(deadLetterOf(delivery))
  await publish(deadLetterOf(delivery))
  expect(await server.stored(dead)).toHaveLength(1)
  await publish(deadLetterOf(delivery, { lastFailedAt: new Date(1) }))
  expect(await server.stored(dead)).toHaveLength(2)
  api.close()
})

// Red when they are left to the `ack_wait` of a minute.
test('messages that a drain did not start go to another consumer at once', async () => {
  const stream = await server.open({})
  const inbox = memoryInbox()
  const gate = Promise.withResolvers<void>()
  const handler = ({ payload }: { payload: { key: string } }) =>
    payload.key === 'slow' ? gate.promise : undefined
  const first = guardOf(handler, { concurrency: 1 }, inbox)
  // Quick handlers let it take some ahead.
  await server.send(stream, [...keysOf(50), 'slow', 'one', 'two'])
  const draining = await consumeNats(server.connection, first, { stream, consumer })
  await until(
    async () => draining.health().inFlight === 3 && (await server.unsettled(stream)) === 3,
  )
  const drained = draining.drain()
  const runs: string[] = []
  const second = guardOf((event) => void runs.push(event.payload.key), {}, inbox)
  await using _ = await consumeNats(server.connection, second, { stream, consumer })
  await until(() => runs.length === 2)
  gate.resolve()
  await drained
  await until(() => isSettled(stream))
  expect(runs.toSorted()).toEqual(['one', 'two'])
})

test('a consumer that is deleted is reported, and received from again when there is one', async () => {
  const stream = await server.open({})
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key))
  await using consumption = await consumeNats(server.connection, guard, { stream, consumer })
  await server.send(stream, ['before'])
  await until(() => isSettled(stream))
  const manager = await jetstreamManager(server.connection)
  await manager.consumers.delete(stream, consumer)
  await until(() => consumption.health().state === 'recovering')
  await until(() => consumption.health().reason?.includes('consumer not found') === true)
  await server.consumer(stream)
  await server.send(stream, ['after'])
  await until(async () => (await isSettled(stream)) && runs.length === 2)
  // It delivers the stream from its start.
  expect(runs).toEqual(['before', 'after'])
  expect(consumption.health()).toMatchObject({ state: 'running' })
})

test('a consumer that is created again with an ack policy that loses messages ends', async () => {
  const stream = await server.open({})
  const guard = guardOf(() => undefined)
  const { stopped } = await consumeNats(server.connection, guard, { stream, consumer })
  const manager = await jetstreamManager(server.connection)
  await manager.consumers.delete(stream, consumer)
  await server.consumer(stream, { ack_policy: 'none' })
  await expect(stopped).rejects.toThrow('ack policy none')
})

test('a limit of unsettled messages only slows down', async () => {
  const stream = await server.open({}, { max_ack_pending: 2 })
  const keys = keysOf(10)
  await server.send(stream, keys)
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key))
  await using _ = await consumeNats(server.connection, guard, { stream, consumer })
  await until(() => isSettled(stream))
  expect(runs.toSorted()).toEqual(keys.toSorted())
})

test('a message in hand is renewed for longer than its ack_wait', async () => {
  const stream = await server.open({}, { ack_wait: 1e9 })
  const gate = Promise.withResolvers<void>()
  let deliveries = 0
  const guard = guardOf(async ({ deliveryCount = 0 }) => {
    deliveries = Math.max(deliveries, deliveryCount)
    await gate.promise
  })
  await server.send(stream, ['slow'])
  await using _ = await consumeNats(server.connection, guard, { stream, consumer })
  await until(() => deliveries === 1)
  const other = await connectTo(server.url)
  const copies: string[] = []
  const idle = guardOf((event) => void copies.push(event.payload.key))
  await using __ = await consumeNats(other, idle, { stream, consumer })
  // Longer than the wait: the test is that nothing happens in this time.
  await new Promise((resolve) => setTimeout(resolve, 2_500))
  gate.resolve()
  await until(() => isSettled(stream))
  await other.close()
  expect([deliveries, copies]).toEqual([1, []])
})

test('a connection that is closed for ever ends the consumer, which says what to give', async () => {
  const stream = await server.open({})
  const connection = await connectTo(server.url)
  const guard = guardOf(() => undefined)
  const { stopped } = await consumeNats(connection, guard, { stream, consumer })
  await connection.close()
  await expect(stopped).rejects.toThrow('maxReconnectAttempts: -1')
})

test.each([
  [{ stream: 'NONE' }, /`nats stream add NONE/],
  [{ consumer: 'none' }, /`nats consumer add S\w+ none --pull --ack explicit --wait \d+s/],
  [{ deadLetter: { subject: 'nowhere' } }, /No stream takes the subject/],
  [{ deadLetter: { stream: 'NODEAD' } }, /The stream of `deadLetter.stream`, NODEAD/],
])('a start with %o is refused, and says what to create', async (wrong, text) => {
  const stream = await server.open({})
  const guard = guardOf(() => undefined)
  const starting = consumeNats(server.connection, guard, { stream, consumer, ...wrong })
  await expect(starting).rejects.toThrow(text)
})
