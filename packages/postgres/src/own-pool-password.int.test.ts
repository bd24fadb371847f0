import { randomUUID } from 'node:crypto'
import { createGuard, type Guard } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { type PostgresServer, postgres, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

let server: PostgresServer
let admin: pg.Pool
let place: pg.PoolConfig

/** A server on which the role `app` needs a password, and nobody else. */
beforeAll(async () => {
  server = await postgres({ native: true })
  const url = await server.createDatabase()
  admin = new pg.Pool({ connectionString: url })
  await migrate(admin)
  await admin.query('create role app superuser login')
  const { rows } = await admin.query("select current_setting('hba_file') as path")
  await admin.query(
    `copy (values ('host all app all scram-sha-256'), ('host all all all trust')) to '${rows[0].path}'`,
  )
  await admin.query('select pg_reload_conf()')
  const { hostname: host, pathname, port } = new URL(url)
  place = { host, port: Number(port), database: pathname.slice(1), user: 'app' }
})
beforeEach(() => admin.query("alter role app password 'one'"))
afterAll(async () => {
  await admin.end()
  await server.stop()
})

const guardOf = (password: NonNullable<pg.PoolConfig['password']>): Guard =>
  createGuard(
    { consumer: 'own-pool', inbox: pgInbox({ ...place, password }), logger: silent },
    async (_, { tx }) => void (await tx.query('select 1')),
  )

const next = () => toDelivery({}, { headers: { 'idempotency-key': randomUUID() } })

// Red when the options are copied: the pool of pg hides the password from enumeration.
it.each([['one'], [() => 'one'], [() => Promise.resolve('one')]])(
  'a pool of the guard’s own logs in with the password of its options (%s)',
  async (password) => {
    const guard = guardOf(password)
    expect(await guard.process(next())).toMatchObject({ kind: 'ack' })
    await guard.close()
  },
)

it('a guard goes on with the new password when it is rotated', async () => {
  let password = 'one'
  const guard = guardOf(() => password)
  expect(await guard.process(next())).toMatchObject({ kind: 'ack' })
  await admin.query("alter role app password 'two'")
  await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'`)
  const delivery = next()
  await until(async () => {
    const settled = await guard.process(delivery)
    return 'error' in settled && /password authentication failed/.test(String(settled.error))
  })
  password = 'two'
  await until(async () => (await guard.process(delivery)).kind === 'ack')
  await guard.close()
})
