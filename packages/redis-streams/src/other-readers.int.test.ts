import type { Logger } from '@onceward/core'
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

const fast = { drainMs: 2_000, group: 'billing' } satisfies Partial<ConsumeStreamOptions>
const keysOf = (count: number, name = 'k'): string[] =>
  Array.from({ length: count }, (_, n) => `${name}-${n}`)
const groupsOf = async (stream: string): Promise<unknown[]> =>
  ((await redis.xinfo('GROUPS', stream)) as unknown[][]).map(([, name]) => name)

/** A logger, and the errors that it got. */
function errorsIn(): { readonly logger: Logger; readonly errors: (readonly [object, string])[] } {
  const errors: (readonly [object, string])[] = []
  const ignore = (): void => undefined
  const logger = { debug: ignore, info: ignore, warn: ignore }
  return {
    logger: {
      ...logger,
      error: (fields: object, text: string) => void errors.push([fields, text]),
    },
    errors,
  } as never
}

// Red when an ack deletes without a look at the groups: the other group never gets what is settled before it reads.
test('a group that comes while a consumer runs gets every entry, and the consumer says so', async () => {
  const stream = freshStream()
  const { logger, errors } = errorsIn()
  const runs: string[] = []
  const guard = guardOf((event) => void runs.push(event.payload.key), { logger })
  await using _ = await consumeStream(redis, guard, { stream, ...fast })
  await send(redis, stream, keysOf(50, 'before'))
  await until(async () => (await redis.xlen(stream)) === 0)
  await redis.xgroup('CREATE', stream, 'audit', '0')
  const sent = await send(redis, stream, keysOf(300))
  await until(async () => runs.length === 350 && (await depth(redis, stream, 'billing'))[1] === 0)
  const reply = await redis.xreadgroup(
    ...(['GROUP', 'audit', 'one', 'COUNT', 1_000, 'STREAMS', stream, '>'] as const),
  )
  const [, entries] = (reply as [string, [string, string[]][]][])[0]!
  expect(entries.map(([id]) => id)).toEqual(sent)
  await until(() => errors.length > 0, { deadlineMs: 30_000 })
  expect(errors).toEqual([
    [expect.objectContaining({ otherGroups: 'audit' }), expect.stringContaining('keepEntries')],
  ])
})

// Red when the group is made before the look: the service that was there first is refused at its next start.
test('a start that is refused leaves no group, on none of its streams', async () => {
  const [mine, shared] = [freshStream(), freshStream()]
  await redis.xgroup('CREATE', shared, 'audit', '0', 'MKSTREAM')
  const start = consumeStream(
    redis,
    guardOf(() => undefined),
    { stream: [mine, shared], ...fast },
  )
  await expect(start).rejects.toThrow(/has other groups \(audit\)/)
  expect(await redis.exists(mine)).toBe(0)
  expect(await groupsOf(shared)).toEqual(['audit'])
})

test('a first start on a stream that has entries needs a word on `keepEntries`, and deletes nothing before', async () => {
  const stream = freshStream()
  await send(redis, stream, keysOf(20))
  const runs: string[] = []
  const guard = () => guardOf((event) => void runs.push(event.payload.key))
  const start = consumeStream(redis, guard(), { stream, ...fast })
  await expect(start).rejects.toThrow(/has entries and no group billing/)
  expect([await redis.xlen(stream), await groupsOf(stream)]).toEqual([20, []])
  await using _ = await consumeStream(redis, guard(), { stream, keepEntries: false, ...fast })
  await until(async () => (await redis.xlen(stream)) === 0)
  expect(runs).toHaveLength(20)
})

test('guards of different consumers that share a group are told, each of them', async () => {
  const stream = freshStream()
  const told = { billing: errorsIn(), mails: errorsIn() }
  const start = (consumer: 'billing' | 'mails') =>
    consumeStream(
      redis,
      guardOf(() => undefined, { consumer, logger: told[consumer].logger }),
      { stream, ...fast },
    )
  await using _ = await start('billing')
  await using __ = await start('mails')
  await until(() => told.mails.errors.length > 0, { deadlineMs: 10_000 })
  await until(() => told.billing.errors.length > 0, { deadlineMs: 30_000 })
  for (const [consumer, other] of [
    ['billing', 'mails'],
    ['mails', 'billing'],
  ] as const) {
    expect(told[consumer].errors).toEqual([
      [
        expect.objectContaining({ consumer, otherConsumers: other, group: 'billing' }),
        expect.stringContaining('give each of them a group of its own'),
      ],
    ])
  }
})

// Red when a renewal takes an entry that nobody owns for another consumer's: it is dropped here, and no group delivers it.
test('an entry in hand runs, although its consumer was deleted with it', async () => {
  const stream = freshStream()
  const runs: number[] = []
  const guard = guardOf(
    (event) => {
      runs.push(event.attempt)
      if (event.attempt === 1) throw new Error('not yet')
    },
    { retry: { baseMs: 4_000 } },
  )
  const options = { stream, consumerName: 'one', claimIdleMs: 1_000, ...fast }
  await using _ = await consumeStream(redis, guard, options)
  await send(redis, stream, ['a'])
  await until(() => runs.length === 1)
  await redis.xgroup('DELCONSUMER', stream, 'billing', 'one')
  await until(() => runs.length === 2, { deadlineMs: 15_000 })
})

test('entries whose consumer was deleted with them are told, and no others', async () => {
  const stream = freshStream()
  const [one, two] = [apiOf(redis, stream), apiOf(redis, stream, { consumerName: 'two' })]
  await one.ensureGroup(stream)
  const ids = await send(redis, stream, keysOf(6))
  await one.read([stream], { count: 2, blockMs: 1 })
  await two.read([stream], { count: 2, blockMs: 1 })
  await two.park(stream, { id: ids[2]!, afterMs: 60_000, deliveryCount: 1 })
  await one.ack(stream, [ids[0]!])
  expect((await two.neighbours(stream)).adrift).toBe(0)
  await redis.xgroup('DELCONSUMER', stream, 'billing', 'one')
  expect((await two.neighbours(stream)).adrift).toBe(1)
  const { logger, errors } = errorsIn()
  const guard = guardOf(() => undefined, { logger })
  await using _ = await consumeStream(redis, guard, { stream, ...fast })
  await until(() => errors.length > 0)
  expect(errors).toEqual([
    [expect.objectContaining({ entries: '1' }), expect.stringContaining('XGROUP DELCONSUMER')],
  ])
})
