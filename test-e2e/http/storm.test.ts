// @module-tag nightly

import { randomUUID } from 'node:crypto'
import { redis, skipped } from '@onceward/testing'
import { afterAll, describe, expect, test } from 'vitest'
import { lasting, pay } from './client.ts'
import type { ServerConfig } from './protocol.ts'
import { type Ledger, openLedger } from './scenario.ts'
import { ServerProcess } from './server-process.ts'

const CLIENTS = 1_000

async function storm(ledger: Ledger, config: ServerConfig): Promise<void> {
  await using one = new ServerProcess(config)
  await using other = new ServerProcess(config)
  const urls = [await one.url(), await other.url()]
  const key = randomUUID()
  const edge = 'request' as const
  const warm = { edge, key: randomUUID(), charge: { cents: 1 } }
  for (const url of urls) await pay(() => url, warm)
  const before = await one.memory()
  const clients = Array.from({ length: CLIENTS }, (_, client) =>
    pay(() => urls[client % urls.length] ?? '', { edge, key, charge: { cents: 500 } }),
  )
  const answers = await Promise.all(clients)
  const [answer] = answers
  expect(answer?.status).toBe(201)
  for (const each of answers) expect(lasting(each)).toEqual(answer && lasting(answer))
  expect(answers.filter(({ replayed }) => !replayed).length).toBeLessThanOrEqual(1)
  expect(await ledger.charges()).toEqual({ [key]: 1, [warm.key]: 1 })
  // What one client leaves behind must not grow with their number.
  expect((await one.memory()) - before).toBeLessThan(20_000_000)
}

describe('a thousand clients with one key', () => {
  test('have one effect and one answer', async () => {
    await using ledger = await openLedger()
    await storm(ledger, { edge: 'request', framework: 'express', databaseUrl: ledger.url })
  })

  test.skipIf(skipped('redis'))(
    'have one effect and one answer, with leases in Redis',
    async () => {
      const server = await redis({ native: true })
      afterAll(() => server.stop())
      await using ledger = await openLedger()
      const { port: redisPort } = server.connection
      await storm(ledger, {
        edge: 'request',
        framework: 'node',
        databaseUrl: ledger.url,
        redisPort,
      })
    },
  )
})
