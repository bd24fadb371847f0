import { createHash } from 'node:crypto'
import express from 'express'
import type { Pool, PoolClient } from 'pg'
import { inTransaction, type Order } from '../../../load/effects.ts'
import { execute, openPool } from '../../database.ts'
import { charge } from '../order.ts'
import type { HttpRival } from '../rival.ts'

const TABLE = `create table idempotency_keys (
  key text primary key,
  fingerprint text not null,
  status int,
  body text,
  created_at timestamptz not null default now()
)`

interface Stored {
  readonly status: number
  readonly body: string
}

/** What a good engineer writes: the key, its answer and the effect in one transaction. */
export const byHand: HttpRival = {
  name: 'by-hand',
  hasRedis: false,
  setUp: (databaseUrl) => execute(databaseUrl, TABLE),
  serve: async (app, place) => {
    const pool = openPool(place, new AsyncDisposableStack())
    app.post('/orders', express.json(), async (request, response) => {
      const { status, body } = await answer(
        pool,
        String(request.get('idempotency-key')),
        request.body,
      )
      response.status(status).type('application/json').send(body)
    })
  },
}

async function answer(pool: Pool, key: string, order: Order): Promise<Stored> {
  const fingerprint = createHash('sha256').update(JSON.stringify(order)).digest('hex')
  let stored: Stored | undefined
  await inTransaction(pool, async (tx) => {
    const inserted = await tx.query(
      'insert into idempotency_keys (key, fingerprint) values ($1, $2) on conflict do nothing',
      [key, fingerprint],
    )
    stored = inserted.rowCount === 1 ? await run(tx, key, order) : await read(tx, key, fingerprint)
  })
  return stored as Stored
}

async function run(tx: PoolClient, key: string, order: Order): Promise<Stored> {
  const stored = { status: 201, body: JSON.stringify(await charge(tx, order)) }
  await tx.query('update idempotency_keys set status = $2, body = $3 where key = $1', [
    key,
    stored.status,
    stored.body,
  ])
  return stored
}

async function read(tx: PoolClient, key: string, fingerprint: string): Promise<Stored> {
  const { rows } = await tx.query(
    'select fingerprint, status, body from idempotency_keys where key = $1',
    [key],
  )
  return rows[0].fingerprint === fingerprint
    ? rows[0]
    : { status: 422, body: '{"title":"the key was used for another request"}' }
}
