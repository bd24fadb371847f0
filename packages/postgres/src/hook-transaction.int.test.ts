import { createGuard } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { expect, test } from 'vitest'
import { order } from './fixtures/guards.ts'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

// Red when new connections are closed without end, or a slot of the pool does not come back.
test('a hook of the pool that begins a transaction is an outage, which ends with the hook', async () => {
  const hook = { isBroken: false }
  const pool = new pg.Pool({
    ...{ connectionString: (await database()).url, max: 3 },
    verify: (client: pg.PoolClient, done: (error?: Error) => void) => {
      if (hook.isBroken) client.query('begin', done)
      else done()
    },
  } as pg.PoolConfig)
  await migrate(pool)
  const guard = createGuard(
    { consumer: 'billing', inbox: pgInbox(pool), logger: silent },
    () => undefined,
  )
  expect(await guard.process(order())).toMatchObject({ by: 'processed' })
  hook.isBroken = true
  const idle = await Promise.all(Array.from({ length: 3 }, () => pool.connect()))
  for (const client of idle) client.release(true)
  expect(await guard.process(order())).toMatchObject({
    reason: 'store-down',
    error: { message: expect.stringContaining('end it in the hook that begins it') },
  })
  hook.isBroken = false
  await until(async () => (await guard.process(order())).kind === 'ack')
  await guard.close()
  await pool.end()
})
