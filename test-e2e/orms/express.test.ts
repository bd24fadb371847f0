// @module-tag nightly

import { randomUUID } from 'node:crypto'
import { createHttpGuard } from '@onceward/http'
import { migrate } from '@onceward/postgres'
import { database } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send, serve } from '../../packages/http/src/fixtures/servers.ts'
import { ORMS } from '../../packages/postgres/src/fixtures/orms/index.ts'

let url: string
let pool: pg.Pool

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url, max: 3 })
  await migrate(pool)
  await pool.query('create table charges (order_id text not null, cents int not null)')
})
afterAll(() => pool.end())

test.each(ORMS)(
  'a route of Express over $name charges each request once, and not one that fails',
  async ({ connect }) => {
    const orm = await connect(url, 5)
    const guard = createHttpGuard(
      {
        consumer: `charges.${randomUUID()}`,
        inbox: orm.inbox({ connectionString: url }),
        ...{ tenant: 'none' as const, logger: silent },
      },
      async ({ key, payload }, { tx }) => {
        const { cents } = payload as { readonly cents: number }
        await orm.runOn(tx)('insert into charges (order_id, cents) values ($1, 500)', [key])
        if (cents === 0) throw new Error('a charge of nothing')
        return { status: 201, body: { charged: cents } }
      },
    )
    const server = await serve('express', guard)
    try {
      const [key, failing] = [randomUUID(), randomUUID()]
      const first = await Promise.all([send(server, { key }), send(server, { key })])
      expect(first.map(({ status }) => status).toSorted()[0]).toBe(201)
      const again = await send(server, { key })
      expect(again).toMatchObject({ status: 201, text: '{"charged":500}' })
      expect(await send(server, { key: failing, body: '{"cents":0}' })).toMatchObject({
        status: 500,
      })
      const charged = 'select order_id from charges where order_id = any($1)'
      expect((await pool.query(charged, [[key, failing]])).rows).toEqual([{ order_id: key }])
    } finally {
      await server.close()
      await guard.close()
      await orm.close()
    }
  },
)
