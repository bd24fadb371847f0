import { ConfigurationError, FatalError } from '@onceward/core'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { type ChannelModel, connect } from 'amqplib'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { wrapAmqp } from './index.ts'

const kit = useRabbitmq()
let connection: ChannelModel

beforeEach(async () => {
  connection = await connect(kit.url)
})
afterEach(() => connection.close())

const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`)

test('wrapAmqp settles the deliveries of a channel of the user: acks, retries, dead letters', async () => {
  const queue = await kit.broker.create()
  const dead = await kit.broker.create()
  const runs: string[] = []
  let settled = 0
  const guard = guardOf(
    (event) => {
      runs.push(event.key)
      if (event.key === 'fatal') throw new FatalError('no such order')
      if (event.key === 'again' && event.attempt === 1) throw new Error('not yet')
    },
    {
      retry: { attempts: 2, baseMs: 0 },
      observe: ({ settlement }) => {
        if (settlement.kind !== 'defer') settled += 1
      },
    },
  )
  const channel = await connection.createConfirmChannel()
  await channel.prefetch(20)
  const handle = wrapAmqp(channel, guard, { queue, deadLetter: { queue: dead }, prefetch: 20 })
  const { consumerTag } = await channel.consume(queue, handle)
  const keys = [...keysOf(100), 'again', 'fatal']
  const copies = keysOf(100)
  await kit.broker.send(queue, [...keys, ...copies])
  await until(
    async () => settled === keys.length + copies.length && (await kit.broker.ready(dead)) === 1,
  )
  await channel.cancel(consumerTag)
  await guard.close()
  await channel.close()
  expect(runs.toSorted()).toEqual([...keys, 'again'].toSorted())
  await until(async () => (await kit.broker.ready(queue)) === 0)
  expect((await kit.broker.get(dead))?.properties.headers).toMatchObject({
    'x-onceward-reason': 'fatal',
  })
})

test('the delay queues are declared when the first message needs one', async () => {
  const queue = await kit.broker.create('quorum')
  const attempts: number[] = []
  const guard = guardOf(
    ({ attempt }) => {
      attempts.push(attempt)
      if (attempt === 1) throw new Error('not yet')
    },
    { retry: { baseMs: 200, maxMs: 200 } },
  )
  const channel = await connection.createConfirmChannel()
  await channel.prefetch(20)
  const options = { queue, holdMs: 0, retryLevelsMs: [300] }
  await channel.consume(queue, wrapAmqp(channel, guard, options))
  await kit.broker.send(queue, ['once'])
  await until(() => attempts.length === 2)
  expect(attempts).toEqual([1, 2])
})

test('messages that a closing guard does not start are returned when the channel closes, without a loop', async () => {
  const queue = await kit.broker.create()
  const gate = Promise.withResolvers<void>()
  let running = 0
  const guard = guardOf(
    async () => {
      running += 1
      await gate.promise
    },
    { concurrency: 1 },
  )
  const channel = await connection.createConfirmChannel()
  await channel.prefetch(10)
  const { consumerTag } = await channel.consume(queue, wrapAmqp(channel, guard, { queue }))
  await kit.broker.send(queue, keysOf(10))
  await until(() => running === 1)
  await channel.cancel(consumerTag)
  const closed = guard.close()
  gate.resolve()
  await closed
  await channel.close()
  await until(async () => (await kit.broker.ready(queue)) === 9)
})

// Red when a closed channel stays registered as a place to publish: its failure is named for ever.
test('the health of a wrap on a new channel does not name the one that closed', async () => {
  const [queue, dead] = [await kit.broker.create(), await kit.broker.create()]
  const channels = [
    await connection.createConfirmChannel(),
    await connection.createConfirmChannel(),
  ] as const
  const [first, second] = channels
  const guard = guardOf(async () => {
    // Its dead letter finds the channel closed.
    await first.close().catch(() => undefined)
    throw new FatalError('no such order')
  })
  const wraps = channels.map((channel) =>
    wrapAmqp(channel, guard, { queue, deadLetter: { queue: dead } }),
  )
  const [before, after] = wraps.map(({ consumption }) => consumption)
  await first.consume(queue, wraps[0] as never)
  await kit.broker.send(queue, ['fatal'])
  await until(() => before?.health().state === 'stopped')
  await second.consume(queue, wraps[1] as never)
  await until(async () => (await kit.broker.ready(dead)) === 1)
  await until(() => after?.health().inFlight === 0)
  expect(after?.health().state).toBe('running')
  expect(after?.health().outages).toBeUndefined()
  await second.close()
  await guard.close()
})

test('a channel without confirms is refused by the call', async () => {
  const channel = await connection.createChannel()
  const guard = guardOf(() => undefined)
  expect(() => wrapAmqp(channel as never, guard, { queue: 'orders' })).toThrow(ConfigurationError)
  expect(() => wrapAmqp(channel as never, guard, { queue: 'orders' })).toThrow(
    /createConfirmChannel/,
  )
})

// Red when `multiple` ignores which consumer got the lower tags: the messages of the other consumer are lost.
test('trap A11: an ack never covers messages of another consumer on the channel', async () => {
  const [ours, theirs] = [await kit.broker.create(), await kit.broker.create()]
  const channel = await connection.createConfirmChannel()
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.key))
  await kit.broker.send(theirs, ['theirs-1', 'theirs-2'])
  let got = 0
  await channel.consume(theirs, () => {
    got += 1
  })
  await until(() => got === 2)
  await channel.consume(ours, wrapAmqp(channel, guard, { queue: ours }))
  await kit.broker.send(ours, keysOf(50))
  await until(() => runs.length === 50)
  await kit.broker.send(theirs, ['theirs-3'])
  await until(() => got === 3)
  await channel.close()
  await until(async () => (await kit.broker.ready(theirs)) === 3)
  expect(await kit.broker.ready(ours)).toBe(0)
})
