import { systemRuntime } from '@onceward/core/ports'
import { database, until } from '@onceward/testing'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { KyselyHeldConnection } from './kysely-connection.ts'
import { toTransaction } from './kysely-transaction.ts'
import { wireOf } from './kysely-wire.ts'

let pool: pg.Pool
let db: Kysely<unknown>

beforeAll(async () => {
  pool = new pg.Pool({ connectionString: (await database()).url, max: 3 })
  db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
})
afterAll(() => pool.end())

// Red when the connection of a cancel is released only after success: a refused cancel would keep it for ever.
it('a cancel that PostgreSQL refuses returns its connection to the pool', async () => {
  const held = await KyselyHeldConnection.of(
    { db, runtime: systemRuntime, takesSeveral: true, toTransaction },
    () => undefined,
  )
  for (let round = 0; round < 4; round++) {
    // The server answers this with an error, as to a role that may not cancel.
    held.opened({ pid: Number.NaN })
    await held.cancel()
  }
  await until(() => pool.totalCount - pool.idleCount === 1)
  held.release()
  await until(() => pool.totalCount === pool.idleCount)
})

// Red when it is lent again: the cancel would end a statement of the next event.
it('a connection is closed whose cancel has not ended', async () => {
  const small = new pg.Pool({ ...pool.options, max: 2, idleTimeoutMillis: 0 })
  const kysely = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: small }) })
  const removed = vi.fn()
  small.on('remove', removed)
  const client = { db: kysely, runtime: systemRuntime, takesSeveral: true, toTransaction }
  const held = await KyselyHeldConnection.of(client, () => undefined)
  held.opened({ pid: 1 })
  const other = await small.connect()
  await held.cancel()
  held.release()
  await until(() => removed.mock.calls.length === 1)
  other.release()
  await small.end()
})

// Red when only an idle client is asked: the loss of this connection between two statements would end the process.
it('the connection of pg is found while a statement of other code runs on it', async () => {
  const client = await pool.connect()
  const running = client.query('select pg_catalog.pg_sleep(0.05)')
  client.release()
  await db.getExecutor().provideConnection(async (connection) => {
    expect(await wireOf(connection)).toBe(client.connection)
  })
  await running
})

// Red when the refusal of pg is taken for another client: the loss of a connection would end the process.
it('the connection of pg is found in pipeline mode', async () => {
  const pipelined = new pg.Pool({ ...pool.options, pipeline: true } as pg.PoolConfig)
  const kysely = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: pipelined }) })
  const client = await pipelined.connect()
  client.release()
  await kysely.getExecutor().provideConnection(async (connection) => {
    expect(await wireOf(connection)).toBe(client.connection)
  })
  await kysely.destroy()
})
