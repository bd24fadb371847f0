import { ConfigurationError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { redis as redisServer, type Server, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { silent } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apiOf, depth, freshStream, send } from './fixtures/streams.ts'
import { type StreamReply, streamMessage, wrapStream } from './index.ts'

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

const group = 'billing'
const read = async (stream: string, consumer: string): Promise<StreamReply> =>
  (await redis.xreadgroupBuffer(
    'GROUP',
    group,
    consumer,
    'COUNT',
    10,
    'STREAMS',
    stream,
    '>',
  )) as StreamReply

test('a loop of its own hands over what it reads, and the wrap runs what was parked or abandoned', async () => {
  const stream = freshStream()
  await redis.xgroup('CREATE', stream, group, '0', 'MKSTREAM')
  await send(redis, stream, ['dead'])
  await read(stream, 'gone')
  await send(redis, stream, ['good', 'late'])
  const runs: string[] = []
  const guard = guardOf(
    (event) => {
      runs.push(`${event.payload.key} ${event.attempt}`)
      expect(streamMessage(event)?.fields).toHaveLength(2)
      if (event.payload.key === 'late' && event.attempt === 1) throw new Error('not yet')
    },
    { retry: { attempts: 2, baseMs: 0 } },
  )
  const handle = wrapStream(redis, guard, {
    stream,
    group,
    consumerName: 'one',
    claimIdleMs: 1_000,
  })
  await handle(await read(stream, 'one'))
  // What failed is parked: nothing is held that a loop would have to wait for.
  expect(await depth(redis, stream, group)).toEqual([2, 1, 1])
  await until(async () => (await depth(redis, stream, group)).every((count) => count === 0))
  expect(runs.toSorted()).toEqual(['dead 1', 'good 1', 'late 1', 'late 2'])
  await handle(null)
  await handle.consumption.drain()
  expect(handle.consumption.health()).toMatchObject({ state: 'stopped', inFlight: 0 })
})

// Red when a look takes ten entries and then waits for a second, or drops a trimmed one without a word.
test('what was parked runs at the pace of the handlers, and what was trimmed meanwhile is told', async () => {
  const stream = freshStream()
  const api = apiOf(redis, stream)
  await api.ensureGroup(stream)
  const keys = Array.from({ length: 400 }, (_, n) => `k-${n}`)
  const ids = await send(redis, stream, keys)
  await api.read([stream], { count: 400, blockMs: 1 })
  await Promise.all(ids.map((id) => api.park(stream, { id, afterMs: 0, deliveryCount: 1 })))
  await redis.xdel(stream, ids[0]!)
  const gone: unknown[] = []
  const logger = { ...silent, error: (fields: { id: string }) => void gone.push(fields.id) }
  const runs: string[] = []
  const handle = wrapStream(
    redis,
    guardOf((event) => void runs.push(event.payload.key), { logger: logger as never }),
    { stream, group, consumerName: 'one' },
  )
  await until(async () => (await depth(redis, stream, group)).every((count) => count === 0), {
    deadlineMs: 15_000,
  })
  expect([runs.length, gone]).toEqual([399, [ids[0]]])
  await handle.consumption.drain()
  await api.close()
})

test('what is handed over after a drain can be claimed by others at once', async () => {
  const stream = freshStream()
  await redis.xgroup('CREATE', stream, group, '0', 'MKSTREAM')
  const inbox = memoryInbox()
  const runs: string[] = []
  const made = (consumerName: string) =>
    wrapStream(
      redis,
      guardOf((event) => void runs.push(`${consumerName} ${event.payload.key}`), {}, inbox),
      { stream, group, consumerName, claimIdleMs: 60_000 },
    )
  const first = made('one')
  await first.consumption.drain()
  await send(redis, stream, ['a'])
  await first(await read(stream, 'one'))
  const second = made('two')
  await until(() => runs.length === 1)
  expect(runs).toEqual(['two a'])
  await second.consumption.drain()
})

test('what is no answer of XREADGROUP is refused before anything starts', async () => {
  const handle = wrapStream(
    redis,
    guardOf(() => undefined),
    { stream: 'orders', consumerName: 'one' },
  )
  await expect(handle('orders' as never)).rejects.toThrow(ConfigurationError)
  await handle.consumption.drain()
})
