// @module-tag nightly

import pg from 'pg'
import { afterEach, expect, test, vi } from 'vitest'
import { postgres } from '../postgres/postgres.ts'
import { redis } from '../redis/redis.ts'
import { sqs } from '../sqs/sqs.ts'
import { ServerNotOursError, skipped } from './server.ts'

afterEach(() => vi.unstubAllEnvs())

async function databases(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('select datname from pg_database')
  await client.end()
  return rows.map((row) => row.datname)
}

test('a Postgres of the user is used, not killed, and left without our databases', async () => {
  await using own = await postgres({ native: true })
  vi.stubEnv('ONCEWARD_POSTGRES_URL', own.connection.url)
  const server = await postgres()
  expect(server).toMatchObject({ how: 'environment', canKill: false, connection: own.connection })
  await expect(server.kill()).rejects.toThrow(ServerNotOursError)
  await expect(server.restart()).rejects.toThrow('Unset ONCEWARD_POSTGRES_URL')

  await server.createDatabase('ours')
  expect(await databases(own.connection.url)).toContain('ours')
  await server.stop()
  expect(await databases(own.connection.url)).not.toContain('ours')
})

test.skipIf(skipped('redis'))(
  'a Redis and an SQS of the user are used and survive stop',
  async () => {
    await using ownRedis = await redis()
    await using ownSqs = await sqs({ native: true })
    vi.stubEnv('ONCEWARD_REDIS_URL', ownRedis.connection.url)
    vi.stubEnv('ONCEWARD_SQS_ENDPOINT', ownSqs.connection.endpoint)
    for (const start of [redis, sqs]) {
      const server = await start()
      expect(server).toMatchObject({ how: 'environment', canKill: false })
      await server.stop()
      await (await start()).stop()
    }
  },
)

test('a variable with an address that does not answer is an error, and no other server is started', async () => {
  vi.stubEnv('ONCEWARD_POSTGRES_URL', 'postgres://postgres@127.0.0.1:1/postgres')
  vi.stubEnv('ONCEWARD_REDIS_URL', 'redis://127.0.0.1:1')
  vi.stubEnv('ONCEWARD_SQS_ENDPOINT', 'http://127.0.0.1:1')
  await expect(postgres()).rejects.toThrow('ECONNREFUSED')
  await expect(redis()).rejects.toThrow('ECONNREFUSED')
  await expect(sqs()).rejects.toThrow()
})

test('native starts an own process whatever the variable says', async () => {
  vi.stubEnv('ONCEWARD_SQS_ENDPOINT', 'http://127.0.0.1:1')
  await using server = await sqs({ native: true, process: true })
  expect(server).toMatchObject({ how: 'native', canKill: true })
})
