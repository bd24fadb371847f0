import { randomUUID } from 'node:crypto'
import { StoreUnavailableError } from '@onceward/core'
import { type RedisConnection, redis, type Server } from '@onceward/testing'
import { newClaim } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { testRegistration } from './fixtures/registration.ts'
import { redisLeases } from './index.ts'

let server: Server<RedisConnection>
let shared: Redis

beforeAll(async () => {
  server = await redis({ native: true })
  shared = new Redis(server.connection.port)
})
afterAll(async () => {
  shared.disconnect()
  await server.stop()
})

// Red when the error does not say who else uses the client.
test('a claim inside a transaction that the program has open on the client says so, and can be released later', async () => {
  const options = { budgetMs: 30_000, namespace: randomUUID() }
  const session = await redisLeases(shared, options).open?.(testRegistration())
  const claim = newClaim()
  await shared.multi({ pipeline: false })
  const claiming = session?.claim([claim])
  await expect(claiming).rejects.toThrow(StoreUnavailableError)
  await expect(claiming).rejects.toThrow(/nothing else opens a transaction \(MULTI\)/)
  const [claimed] = (await shared.exec()) ?? []
  expect(claimed).toEqual([null, [['acquired', 'first', 1]]])
  expect(await session?.release([claim])).toEqual(['held'])
  expect(await session?.claim([claim])).toEqual([{ kind: 'acquired', by: 'first', attempt: 1 }])
})
