import { createGuard } from '@onceward/core'
import { redisLeases } from '@onceward/redis'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Billing, charge, openBilling, orderPlaced, quiet } from '../traps/billing.ts'

let server: Server<RedisConnection>
let client: Redis
let billing: Billing

beforeAll(async () => {
  server = await redis({ native: true, settings: { appendonly: 'no' } })
  client = new Redis(server.connection.port)
  billing = await openBilling()
})
afterAll(async () => {
  await billing[Symbol.asyncDispose]()
  client.disconnect()
  await server.stop()
})

/** The key of an event, in the namespace that `{o:<namespace>:<partition>}` says. */
async function keyOf(consumer: string, order: string, namespace: string): Promise<Buffer> {
  const text = 'select onceward.event_id($1, null, $2)'
  const id = String(await billing.value(text, [consumer, order])).replaceAll('-', '')
  const tag = Buffer.from(`{o:${namespace}:${id.slice(0, 2)}}e`)
  return Buffer.concat([tag, Buffer.from(id, 'hex')])
}

/** The namespace of a guard beside an inbox, which contains the identity of the Postgres history. */
async function boundNamespace(): Promise<string> {
  const [key = ''] = await client.keys('{o:onceward.*}m*')
  return /^{o:(.*):..}m/.exec(key)?.[1] ?? ''
}

function listener() {
  const warned: object[] = []
  const warn = (fields: object, message: string): void => void warned.push({ ...fields, message })
  return { warned, logger: { ...quiet, warn } }
}

describe.each([
  ['a key of another type', (key: Buffer) => client.rpush(key, 'theirs')],
  ['a value cut short', (key: Buffer) => client.set(key, '1p12345678170000000000 1 fir')],
  ['a value of another version', (key: Buffer) => client.set(key, '2d12345678-1 ')],
])('%s in the place of an event', (what, put) => {
  // Red when an unreadable value in Redis counts as somebody's claim, and when it is overwritten.
  test('is reported and left as it is, and the event goes to Postgres', async () => {
    const { warned, logger } = listener()
    const leases = redisLeases(client, { budgetMs: 10_000, hold: 'always' })
    const guard = billing.guard(charge, { options: { leases, logger } })
    await guard.process(orderPlaced(`${what}: warm`))
    const key = await keyOf('billing', what, await boundNamespace())
    await put(key)
    const before = await client.dumpBuffer(key)
    expect(await guard.process(orderPlaced(what))).toMatchObject({ by: 'processed' })
    expect(await guard.process(orderPlaced(what))).toMatchObject({ by: 'duplicate' })
    expect(await billing.charges(what)).toBe(1)
    expect(await client.dumpBuffer(key)).toEqual(before)
    const message = expect.stringMatching(/events of this key are decided by PostgreSQL/)
    expect(warned).toMatchObject([{ consumer: 'billing', message }])
  })

  // Red when an unreadable value in Redis counts as no value.
  test('makes a guard without an inbox wait, because only Redis knows what was processed', async () => {
    const { warned, logger } = listener()
    const sent: string[] = []
    const guard = createGuard(
      { consumer: 'mailing', leases: redisLeases(client), onTakeover: 'retry', logger },
      ({ key }) => void sent.push(key),
    )
    try {
      const key = await keyOf('mailing', what, 'onceward')
      await put(key)
      const before = await client.dumpBuffer(key)
      expect(await guard.process(orderPlaced(what))).toMatchObject({
        ...{ kind: 'defer', reason: 'store-down' },
      })
      expect(sent).toEqual([])
      expect(await client.dumpBuffer(key)).toEqual(before)
      const message = expect.stringMatching(/events of this key cannot run until the key is gone/)
      expect(warned.at(-1)).toMatchObject({ consumer: 'mailing', message })
      await client.del(key)
      await until(async () => (await guard.process(orderPlaced(what))).kind === 'ack')
      expect(sent).toEqual([what])
    } finally {
      await guard.close()
    }
  })
})
