import assert from 'node:assert/strict'
import { toDelivery } from '@onceward/core/memory'
import { deadLetters, migrate, postgresLeases } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import pg, { type PoolClient } from 'pg'
import { env } from './env.ts'
import { guardOf, proveInbox } from './support.ts'

const connectionString = env('DATABASE_URL')
const pool = new pg.Pool({ connectionString, max: 12 })
await migrate(pool)
await pool.query('create table charges (order_id text)')

const charged = async (): Promise<string> => {
  const { rows } = await pool.query('select order_id from charges order by 1')
  return rows.map(({ order_id }) => order_id).join()
}
const client = {
  charged,
  write: (tx: PoolClient, orderId: string) =>
    tx.query('insert into charges values ($1)', [orderId]),
  run: (tx: PoolClient, sql: string) => tx.query(sql),
}
await proveInbox({ ...client, inbox: pgInbox(pool) })

// Other code has returned every connection inside of a transaction: nothing may be committed with it.
await pool.query('truncate charges')
const left = await Promise.all(Array.from({ length: 12 }, () => pool.connect()))
for (const each of left) {
  await each.query('begin')
  await each.query("insert into charges values ('left')")
  each.release()
}
const shared = guardOf({ ...client, inbox: pgInbox(pool) })
assert.equal((await shared.process(toDelivery({ orderId: 'c' }))).kind, 'ack')
await shared.close()
assert.equal(await charged(), 'c')

const own = guardOf({ ...client, inbox: pgInbox({ connectionString }) })
assert.equal((await own.process(toDelivery({ orderId: 'd' }))).kind, 'ack')
await own.close()

const leased = { ...client, inbox: pgInbox(pool), leases: postgresLeases(pool) }
assert.equal((await guardOf(leased).process(toDelivery({ orderId: 'e' }))).kind, 'ack')
for await (const letter of deadLetters(pool).list()) assert.equal(letter.key, 'commits')
await pool.end()
console.log('proved')
