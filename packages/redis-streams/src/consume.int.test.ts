import { FatalError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { redis as redisServer, type Server, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apiOf, depth, freshStream, send } from './fixtures/streams.ts'
import { type ConsumeStreamOptions, consumeStream } from './index.ts'

let server: Server<{ readonly url: string }>
let redis: Redis

beforeAll(async () => {
  server = await redisServer()
  redis = new Redis(server.connection.url)
})
afterAll(async () => {
  redis.disconnect()
  await server.stop()
})

const fast = {
  drainMs: 2_000,
  group: 'billing',
  keepEntries: false,
} satisfies Partial<ConsumeStreamOptions>
const keysOf = (count: number): string[] => Array.from({ length: count }, (_, n) => `k-${n}`)
const isEmpty = async (stream: string): Promise<boolean> =>
  (await depth(redis, stream, 'billing')).every((count) => count === 0)

test.each(['each', 'batch'] as const)(
  'with transactions of %s every entry is processed once, copies included, and the stream is empty',
  async (transaction) => {
    const stream = freshStream()
    const keys = keysOf(200)
    await send(redis, stream, [...keys, ...keys.slice(0, 50)])
    const runs: string[] = []
    const guard = guardOf((event) => void runs.push(event.payload.key), { transaction })
    await using consumption = await consumeStream(redis, guard, { stream, ...fast })
    await until(() => isEmpty(stream))
    expect(runs.toSorted()).toEqual(keys.toSorted())
    expect(consumption.health()).toMatchObject({ state: 'running', settleFailures: 0 })
  },
)

test('a failed event is retried, and a fatally failed event is dead-lettered with its reason', async () => {
  const stream = freshStream()
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
  await send(redis, stream, ['again', 'fatal', 'always'])
  const dead = `${stream}.dead`
  await using _ = await consumeStream(redis, guard, {
    stream,
    deadLetter: { stream: dead },
    ...fast,
  })
  await until(() => isEmpty(stream))
  expect(attempts).toEqual({ again: 2, fatal: 1, always: 2 })
  const letters = (await redis.xrange(dead, '-', '+')).map(([, flat]) => {
    const fields = new Map(
      Array.from({ length: flat.length / 2 }, (_, n) => [flat[2 * n], flat[2 * n + 1]]),
    )
    return ['idempotency-key', 'x-onceward-reason', 'x-onceward-error', 'payload'].map((name) =>
      fields.get(name),
    )
  })
  expect(letters.toSorted()).toEqual([
    ['always', 'attempts-spent', expect.stringContaining('declined'), '{"key":"always"}'],
    ['fatal', 'fatal', expect.stringContaining('no such order'), '{"key":"fatal"}'],
  ])
})

test('entries of a consumer that died are taken over, and those that a drain did not start go over at once', async () => {
  const stream = freshStream()
  const inbox = memoryInbox()
  await redis.xgroup('CREATE', stream, 'billing', '0', 'MKSTREAM')
  await send(redis, stream, ['dead'])
  await redis.xreadgroup('GROUP', 'billing', 'gone', 'COUNT', 1, 'STREAMS', stream, '>')
  const runs: string[] = []
  const gate = Promise.withResolvers<void>()
  const first = guardOf(() => gate.promise, { concurrency: 1 }, inbox)
  const options = { stream, ...fast }
  // Its first run occupies its only slot; what it prefetched waits.
  const draining = await consumeStream(redis, first, { ...options, claimIdleMs: 60_000 })
  await send(redis, stream, ['slow', 'unstarted'])
  await until(() => draining.health().inFlight >= 1)
  const second = guardOf((event) => void runs.push(event.payload.key), {}, inbox)
  await using _ = await consumeStream(redis, second, { ...options, claimIdleMs: 1_000 })
  await until(() => runs.includes('dead'))
  const drained = draining.drain()
  gate.resolve()
  await drained
  await until(() => isEmpty(stream))
  expect(runs.toSorted()).toEqual(['dead', 'unstarted'])
})

test('a group that was flushed with its stream is made again, and what is added then is processed', async () => {
  const stream = freshStream()
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key))
  await using consumption = await consumeStream(redis, guard, { stream, ...fast })
  await send(redis, stream, ['before'])
  await until(() => runs.length === 1)
  await redis.del(stream)
  await send(redis, stream, ['after'])
  await until(() => runs.length === 2 && isEmpty(stream))
  expect(runs).toEqual(['before', 'after'])
  await until(() => consumption.health().state === 'running')
})

// Red when the new group begins at the end, or when its copies run again: a Redis that restarts without its last second
// has entries whose acks it lost.
test('a group that was lost while its entries stayed begins at the first one, and doubles nothing', async () => {
  const stream = freshStream()
  const runs: string[] = []
  const settled: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key), {
    observe: ({ settlement }) => {
      settled.push(settlement.kind === 'ack' ? settlement.by : settlement.kind)
    },
  })
  const options = { stream, ...fast, keepEntries: true }
  await using _ = await consumeStream(redis, guard, options)
  await send(redis, stream, keysOf(5))
  await until(async () => settled.length === 5 && (await depth(redis, stream, 'billing'))[1] === 0)
  await redis.xgroup('DESTROY', stream, 'billing')
  await send(redis, stream, ['after'])
  await until(() => settled.length === 11)
  expect(runs).toEqual([...keysOf(5), 'after'])
  expect(settled.filter((by) => by === 'duplicate')).toHaveLength(5)
})

// Red when a look takes what it has room for, and then waits for a second: an outage of an hour takes hours to work off.
test('what was parked and what a dead consumer left runs at the pace of the handlers, and new entries run meanwhile', async () => {
  const stream = freshStream()
  const api = apiOf(redis, stream)
  await api.ensureGroup(stream)
  const ids = await send(redis, stream, keysOf(400))
  await api.read([stream], { count: 400, blockMs: 1 })
  const parking = ids
    .slice(0, 200)
    .map((id) => api.park(stream, { id, afterMs: 0, deliveryCount: 1 }))
  await Promise.all(parking)
  await api.giveBack(stream, ids.slice(200))
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key))
  await using _ = await consumeStream(redis, guard, { stream, ...fast })
  const fresh = Array.from({ length: 20 }, (_, n) => `fresh-${n}`)
  await send(redis, stream, fresh)
  await until(() => isEmpty(stream), { deadlineMs: 15_000 })
  expect(runs).toHaveLength(420)
  expect(runs.slice(0, 300)).toEqual(expect.arrayContaining(fresh))
  await api.close()
})

test('a key that is no stream is refused at the start', async () => {
  const stream = freshStream()
  await redis.set(stream, 'text')
  const guard = guardOf(() => undefined)
  await expect(consumeStream(redis, guard, { stream, ...fast })).rejects.toThrow(
    /cannot be consumed.*Give the key of a stream/,
  )
})
