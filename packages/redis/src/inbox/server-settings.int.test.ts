import { randomUUID } from 'node:crypto'
import { createGuard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { type RedisConnection, redis, type Server } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { createClientPool } from 'redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { redisInbox } from './inbox.ts'

let server: Server<RedisConnection>
let client: Redis

beforeAll(async () => {
  server = await redis({ native: true })
  client = new Redis(server.connection.port)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

test.each([
  // Refused at its first write: nothing of it is applied.
  ['incrBy', { kind: 'defer', reason: 'store-down' }, ['1', null]],
  // Redis refuses no later write of a script that has written, so all of it is applied.
  ['del', { kind: 'ack' }, [null, '1']],
])('a full Redis applies all or nothing: %s comes first', async (first, settlement, values) => {
  const full = await redis({ native: true })
  const own = new Redis(full.connection.port)
  const inbox = redisInbox(own, { hashTag: 'shop' })
  const guard = createGuard({ consumer: 'stock', inbox, logger: silent }, async (_, { tx }) => {
    if (first === 'del') tx.del('{shop}old')
    tx.incrBy('{shop}n', 1)
    if (first !== 'del') tx.del('{shop}old')
    await own.config('SET', 'maxmemory', '1')
  })
  await own.set('{shop}old', 1)
  expect(await guard.process(toDelivery({}))).toMatchObject(settlement)
  expect(await own.mget('{shop}old', '{shop}n')).toEqual(values)
  own.disconnect()
  await full.stop()
})

test('a user without the right for one of the writes applies none of them', async () => {
  const name = `u${randomUUID().slice(0, 8)}`
  await client.call('ACL', 'SETUSER', name, 'on', '>pw', '~*', '+@all', '-zadd')
  const own = new Redis({ port: server.connection.port, username: name, password: 'pw' })
  const inbox = redisInbox(own, { hashTag: name })
  const guard = createGuard({ consumer: 'stock', inbox, logger: silent }, async (_, { tx }) => {
    tx.incrBy(`{${name}}n`, 1)
    tx.zAdd(`{${name}}board`, 1, 'a')
  })
  const settlement = await guard.process(toDelivery({}))
  expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(String(settlement.kind === 'defer' && settlement.error)).toContain('NOPERM')
  expect(await client.get(`{${name}}n`)).toBe(null)
  own.disconnect()
})

describe.each([
  ['always', []],
  ['everysec', ['it loses its last second of writes']],
  ['no', ['it loses all writes that the system has not written']],
  ['unreadable', ['could not be read with CONFIG GET']],
])('a guard that starts beside appendfsync %s', (value, findings) => {
  test.each(['ioredis', 'node-redis'])(
    `warns of ${findings.length} settings on %s`,
    async (kind) => {
      const isReadable = value !== 'unreadable'
      const appendfsync = isReadable ? value : 'everysec'
      await using own = await redis({ native: true, settings: { appendonly: 'yes', appendfsync } })
      const admin = new Redis(own.connection.port)
      if (!isReadable) await admin.call('ACL', 'SETUSER', 'default', '-config')
      const pool = createClientPool({ url: own.connection.url })
      await pool.connect()
      const found: string[] = []
      const warn = (fields: object): void => void found.push(String(Reflect.get(fields, 'finding')))
      const inbox = redisInbox(kind === 'ioredis' ? admin : pool)
      const guard = createGuard({ consumer: 'stock', inbox, logger: { ...silent, warn } }, () => {})
      await guard.process(toDelivery({}))
      expect(found).toEqual(findings.map((text) => expect.stringContaining(text)))
      admin.disconnect()
      pool.destroy()
    },
  )
})

// Red when the error names fewer rights than the scripts need.
test('a user with the rights that the error names can run every event', async () => {
  const name = `u${randomUUID().slice(0, 8)}`
  const asUser = (...rights: string[]) =>
    client.call('ACL', 'SETUSER', name, 'reset', 'on', '>pw', `~{${name}}*`, ...rights)
  await asUser('+evalsha', '+eval')
  const { port } = server.connection
  const own = new Redis({ port, username: name, password: 'pw', enableReadyCheck: false })
  const start = () => {
    const inbox = redisInbox(own, { hashTag: name })
    const options = { consumer: 'stock', inbox, logger: silent, retry: { attempts: 1 } } as const
    return {
      inbox,
      guard: createGuard(options, async ({ payload }, { tx }) => {
        await tx.watch(`{${name}}n`)
        tx.incrBy(`{${name}}n`, 1)
        if (payload === 'bad') throw new Error('poison')
      }),
    }
  }
  const refused: unknown = await start()
    .guard.process(toDelivery(1))
    .catch((error: unknown) => error)
  expect(refused).toMatchObject({ name: 'ConfigurationError' })
  const named = String(refused).match(/\+[^ `]+/g) ?? []
  await asUser(...named, '+incrby')
  const { guard, inbox } = start()
  expect(await guard.process(toDelivery(1))).toMatchObject({ kind: 'ack' })
  expect(await guard.process(toDelivery('bad'))).toMatchObject({ kind: 'dead-letter' })
  const [letter] = await inbox.deadLetters('stock')
  expect(letter && (await inbox.discard('stock', letter.ref))).toBe(true)
  own.disconnect()
})
