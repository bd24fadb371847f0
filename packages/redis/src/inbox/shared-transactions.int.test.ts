import { randomUUID } from 'node:crypto'
import { createBatchGuard, createGuard, type Guard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { type RedisConnection, redis, type Server } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RedisTransaction } from './handle.ts'
import { type RedisInbox, redisInbox } from './inbox.ts'

let server: Server<RedisConnection>
let client: Redis

beforeAll(async () => {
  server = await redis()
  client = new Redis(server.connection.url)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

const SALES = 50

/** Takes a piece of the stock, as it was read. */
async function sell(tx: RedisTransaction, key: string): Promise<void> {
  await tx.watch(key)
  tx.set(key, Number(await client.get(key)) - 1)
}

// Red when a handler may watch what an earlier event of its transaction wrote: it reads the value from before the commit,
// so all events are acked and only some of their pieces are taken.
test.each<[string, (inbox: RedisInbox, key: string) => Guard]>([
  [
    'transactions of `batch`',
    (inbox, key) =>
      createGuard(
        { consumer: 'sales', inbox, logger: silent, transaction: 'batch' },
        async (_, { tx }) => sell(tx, key),
      ),
  ],
  [
    'a handler that ignores the refusal',
    (inbox, key) =>
      createGuard(
        { consumer: 'sales', inbox, logger: silent, transaction: 'batch' },
        async (_, { tx }) => {
          await tx.watch(key).catch(() => undefined)
          tx.set(key, Number(await client.get(key)) - 1)
        },
      ),
  ],
  [
    'a batch handler',
    (inbox, key) =>
      createBatchGuard({ consumer: 'sales', inbox, logger: silent }, async (events, { tx }) => {
        for (const _ of events) await sell(tx, key)
      }),
  ],
])('with %s each event decides by what the event before it wrote', async (_, guardOf) => {
  const hashTag = randomUUID()
  const key = `{${hashTag}}stock`
  await client.set(key, 100)
  const guard = guardOf(redisInbox(client, { hashTag }), key)
  const sales = Array.from({ length: SALES }, () => toDelivery({}))
  const settled = await guard.processBatch(sales)
  expect(new Set(settled.map(({ kind }) => kind))).toEqual(new Set(['ack']))
  expect(await client.get(key)).toBe(String(100 - SALES))
})
