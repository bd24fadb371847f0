// @module-tag nightly

import pg from 'pg'
import { expect, test } from 'vitest'
import { skipped } from '../run/server.ts'
import { pgbouncer } from './pgbouncer.ts'
import { postgres } from './postgres.ts'

test.skipIf(skipped('pgbouncer'))(
  'PgBouncer in transaction mode shares one server connection between two clients',
  async () => {
    await using server = await postgres()
    const database = new URL(await server.createDatabase())
    await using pooler = await pgbouncer(server, { settings: { default_pool_size: '1' } })
    const url = Object.assign(new URL(pooler.connection.url), { pathname: database.pathname }).href
    const clients = [1, 2].map(() => new pg.Client({ connectionString: url }))
    try {
      const backends: number[] = []
      for (const client of clients) {
        await client.connect()
        const { rows } = await client.query(
          'select pg_backend_pid() as pid, current_database() as db',
        )
        backends.push(rows[0].pid)
        expect(`/${rows[0].db}`).toBe(database.pathname)
      }
      expect(backends[0]).toBe(backends[1])
    } finally {
      for (const client of clients) await client.end()
    }
  },
)
