import { FatalError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { describe, expect, test } from 'vitest'
import type { QueueType } from './fixtures/broker.ts'
import { useRabbitmq } from './fixtures/use-rabbitmq.ts'
import { type ConsumeAmqpOptions, type Consumption, consumeAmqp } from './index.ts'

const kit = useRabbitmq()

const fast = { drainMs: 2_000 } satisfies Partial<ConsumeAmqpOptions>
const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`)
const TYPES: readonly QueueType[] = ['classic', 'quorum']

/** No message is ready, and none in hand. */
async function isEmpty(queue: string, consumption: Consumption): Promise<boolean> {
  return (await kit.broker.ready(queue)) === 0 && consumption.health().inFlight === 0
}

describe.each(TYPES)('a consumer of a %s queue', (type) => {
  test('processes each message once, copies included, and empties the queue', async () => {
    const queue = await kit.broker.create(type)
    const keys = keysOf(200)
    await kit.broker.send(queue, [...keys, ...keys.slice(0, 50)])
    const runs: string[] = []
    const guard = guardOf((event) => void runs.push(event.payload.key))
    const consumption = await consumeAmqp(kit.open, guard, { queue, ...fast })
    await until(() => runs.length >= 200 && isEmpty(queue, consumption))
    expect(consumption.health()).toMatchObject({ state: 'running', inFlight: 0, settleFailures: 0 })
    await consumption.drain()
    expect(await kit.broker.ready(queue)).toBe(0)
    expect(runs.toSorted()).toEqual(keys.toSorted())
  })

  test('a failed event is retried, and a fatally failed event is dead-lettered with its reason', async () => {
    const queue = await kit.broker.create(type)
    const dead = await kit.broker.create(type)
    const attempts: Record<string, number> = {}
    const guard = guardOf(
      (event) => {
        attempts[event.key] = event.attempt
        if (event.key === 'fatal') throw new FatalError('no such order')
        if (event.key === 'always') throw new Error('declined')
        if (event.attempt === 1) throw new Error('not yet')
      },
      { retry: { attempts: 2, baseMs: 0 } },
    )
    await kit.broker.send(queue, ['again', 'fatal', 'always'])
    const options = { queue, deadLetter: { queue: dead }, ...fast }
    await using consumption = await consumeAmqp(kit.open, guard, options)
    await until(async () => (await kit.broker.ready(dead)) === 2 && isEmpty(queue, consumption))
    expect(attempts).toEqual({ again: 2, fatal: 1, always: 2 })
    const deadLetters = [await kit.broker.get(dead), await kit.broker.get(dead)].map((message) => [
      JSON.parse(String(message?.content)).key,
      message?.properties.headers?.['x-onceward-reason'],
      message?.properties.headers?.['x-onceward-error'],
      message?.properties.headers?.['Idempotency-Key'],
      message?.properties.deliveryMode,
    ])
    expect(deadLetters.toSorted()).toEqual([
      ['always', 'attempts-spent', expect.stringContaining('declined'), 'always', 2],
      ['fatal', 'fatal', expect.stringContaining('no such order'), 'fatal', 2],
    ])
  })
})

test('a batch guard processes each message once and empties the queue', async () => {
  const queue = await kit.broker.create()
  const keys = keysOf(200)
  await kit.broker.send(queue, keys)
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key), { transaction: 'batch' })
  const consumption = await consumeAmqp(kit.open, guard, { queue, ...fast })
  await until(() => runs.length >= 200 && isEmpty(queue, consumption))
  await consumption.drain()
  expect(await kit.broker.ready(queue)).toBe(0)
  expect(runs.toSorted()).toEqual(keys.toSorted())
})

test('a wait longer than the hold time goes through the delay queue and keeps all properties of the message', async () => {
  const queue = await kit.broker.create()
  const seen: unknown[] = []
  const guard = guardOf(
    (event) => {
      const { fields, properties } = event.raw as { fields: object; properties: object }
      seen.push({ fields, properties, redelivered: event.redelivered })
      if (event.attempt === 1) throw new Error('not yet')
    },
    { retry: { baseMs: 300, maxMs: 300 } },
  )
  await using consumption = await consumeAmqp(kit.open, guard, {
    queue,
    retryLevelsMs: [500],
    holdMs: 0,
    ...fast,
  })
  await kit.broker.send(queue, ['once'], {
    messageId: 'm-1',
    appId: 'shop',
    correlationId: 'c-1',
    replyTo: 'answers',
    type: 'order',
    priority: 3,
    contentType: 'application/json',
    contentEncoding: 'utf-8',
    timestamp: 1_700_000_000,
    expiration: '60000',
    userId: 'guest',
    CC: [`${queue}-cc`],
    headers: { 'x-nested': { a: [1, true] }, 'x-bytes': Buffer.from([1, 255]), 'x-death': 'mine' },
  })
  await until(() => seen.length === 2 && isEmpty(queue, consumption))
  const [first, second] = seen as [
    Record<string, Record<string, unknown>>,
    Record<string, Record<string, unknown>>,
  ]
  expect(first).toMatchObject({ redelivered: false, fields: { exchange: '', routingKey: queue } })
  expect(second).toMatchObject({ redelivered: true, fields: { exchange: '', routingKey: queue } })
  const { headers, ...properties } = second['properties'] as { headers: Record<string, unknown> }
  const original = (first['properties'] as { headers: object }).headers
  expect(properties).toEqual({ ...first['properties'], headers: undefined, ...properties })
  expect(headers).toEqual(original)
})

test('an event that runs for five seconds is redelivered at most three times: no hot loop', async () => {
  const queue = await kit.broker.create('quorum')
  const inbox = memoryInbox()
  const gate = Promise.withResolvers<void>()
  let deliveries = 0
  const owner = guardOf(() => gate.promise, { concurrency: 1 }, inbox)
  const observe = (): void => {
    deliveries += 1
  }
  const other = guardOf(() => undefined, { observe }, inbox)
  await kit.broker.send(queue, ['slow', 'slow'])
  await using first = await consumeAmqp(kit.open, owner, { queue, prefetch: 1, ...fast })
  await until(() => first.health().inFlight > 0)
  await using second = await consumeAmqp(kit.open, other, { queue, ...fast })
  const started = performance.now()
  await until(() => performance.now() - started > 5_000)
  gate.resolve()
  await until(async () => (await isEmpty(queue, first)) && isEmpty(queue, second), {
    deadlineMs: 40_000,
  })
  expect(deliveries).toBeLessThanOrEqual(4)
})

test('poison messages do not stop other messages from being processed', async () => {
  const queue = await kit.broker.create()
  const done: string[] = []
  const guard = guardOf(
    (event) => {
      if (event.payload.key.startsWith('poison')) throw new Error('poison')
      done.push(event.payload.key)
    },
    { retry: { attempts: 5, baseMs: 60_000, maxMs: 60_000 } },
  )
  const keys = keysOf(100)
  await kit.broker.send(queue, ['poison-1', ...keys.slice(0, 50), 'poison-2', ...keys.slice(50)])
  await using _ = await consumeAmqp(kit.open, guard, { queue, holdMs: 0, ...fast })
  await until(() => done.length === 100)
  await until(async () => {
    const levels = [1_000, 5_000, 30_000, 120_000].map((ms) =>
      kit.broker.ready(`${queue}.retry.${ms}`),
    )
    return (await Promise.all(levels)).reduce((sum, ready) => sum + ready) === 2
  })
})

test('a drain gives unstarted messages back while the running handler still runs', async () => {
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
  await kit.broker.send(queue, keysOf(10))
  const consumption = await consumeAmqp(kit.open, guard, { queue, prefetch: 10, drainMs: 20_000 })
  await until(() => running === 1 && consumption.health().inFlight === 10)
  const drained = consumption.drain()
  // While the handler runs, long before `drainMs` is over.
  await until(async () => (await kit.broker.ready(queue)) === 9)
  gate.resolve()
  await drained
  expect(await kit.broker.ready(queue)).toBe(9)
  expect(await kit.broker.consumers(queue)).toBe(0)
  expect(consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0, settleFailures: 0 })
})

test('the start fails with the name of a queue that does not exist, the dead-letter queue included', async () => {
  const queue = await kit.broker.create()
  const guard = guardOf(() => undefined)
  const missing = `${queue}-missing`
  await expect(consumeAmqp(kit.open, guard, { queue: missing })).rejects.toThrow(missing)
  const deadLetter = { queue: missing }
  await expect(consumeAmqp(kit.open, guard, { queue, deadLetter })).rejects.toThrow(missing)
  for (const target of [
    { exchange: missing, routingKey: 'dead' },
    // The default exchange.
    { exchange: '', routingKey: missing },
  ]) {
    const start = consumeAmqp(kit.open, guard, { queue, deadLetter: target })
    await expect(start).rejects.toThrow(missing)
  }
})
