import {
  ConfigurationError,
  createGuard,
  type Delivery,
  StoreUnavailableError,
} from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import { database } from '@onceward/testing'
import { Pool, type PoolClient } from 'pg'
import { expect, test, vi } from 'vitest'
import { dyingServer } from '../fixtures/dying-server.ts'
import { migrate } from '../operators/migrate.ts'
import { pgInbox } from '../pg.ts'
import { connectForStatements, takeConnection } from './pg-connection.ts'

// Red (an uncaught error, which ends the process) when the first listener comes after the connection.
test('a server that dies with its last packet of the handshake gives StoreUnavailableError', async () => {
  await using server = await dyingServer('connected')
  const pool = new Pool({ connectionString: server.url })
  pool.on('error', () => undefined)
  const guard = createGuard({ consumer: 'billing', inbox: pgInbox(pool) }, () => undefined)
  const failure = { code: 'ONCEWARD_STORE_UNAVAILABLE' }
  await expect(portOf(guard).open()).rejects.toMatchObject(failure)
  await pool.end()
})

// Red (no answer, so every event is deferred) when only the callback is waited for.
test('an async function in place of query may answer by its promise alone', async () => {
  const { url } = await database()
  const pool = new Pool({ connectionString: url })
  pool.on('connect', (client: PoolClient) => {
    const query = client.query.bind(client) as (text: unknown, values?: unknown) => Promise<unknown>
    Object.assign(client, {
      query: async (...[text, values]: readonly unknown[]) =>
        await query(text, typeof values === 'function' ? undefined : values),
    })
  })
  await migrate(pool)
  const guard = createGuard({ consumer: 'billing', inbox: pgInbox(pool) }, async (_, { tx }) => {
    await tx.query('select 1')
  })
  expect(await guard.process(DELIVERY)).toEqual({ kind: 'ack', by: 'processed' })
  expect(await guard.process(DELIVERY)).toEqual({ kind: 'ack', by: 'duplicate' })
  await guard.close()
  await pool.end()
})

const DELIVERY: Delivery = {
  body: Buffer.from('{}'),
  headers: { 'idempotency-key': 'order-1' },
  source: { broker: 'none', queue: 'orders' },
}

// Red when it is lent again: the cancel would end a statement of the next event.
test('a connection is closed whose cancel has not ended', async () => {
  const pool = new Pool({ connectionString: (await database()).url, max: 2 })
  const lender = {
    ...{ pool, runtime: systemRuntime, ownsSessions: false },
    releaseSlot: () => undefined,
  }
  const held = await takeConnection(lender)
  const other = await pool.connect()
  await held.send(['select pg_catalog.pg_backend_pid()'], 5_000, 'rows')
  held.session.pid = 1
  await held.cancel()
  held.release()
  expect(pool.totalCount).toBe(1)
  other.release()
  await pool.end()
})

/** Times pass a hundred times as fast. */
const fast = {
  ...systemRuntime,
  setTimer: (callback: () => void, ms: number) => systemRuntime.setTimer(callback, ms / 100),
}

async function idlePool(): Promise<Pool> {
  const pool = new Pool({ connectionString: (await database()).url, max: 3, idleTimeoutMillis: 0 })
  ;(await pool.connect()).release()
  return pool
}

// Red when the connection is awaited without a limit because one is idle: no event ever ends, nor does close().
test('a `connect` of the user that hangs is given up, also while connections are idle', async () => {
  const pool = await idlePool()
  const connect = vi.spyOn(pool, 'connect').mockReturnValue(new Promise(() => undefined) as never)
  const releaseSlot = vi.fn()
  const lender = { pool, runtime: fast, ownsSessions: false, releaseSlot }
  await expect(takeConnection(lender)).rejects.toBeInstanceOf(StoreUnavailableError)
  await expect(connectForStatements(pool, fast)).rejects.toBeInstanceOf(StoreUnavailableError)
  expect(releaseSlot).toHaveBeenCalledTimes(1)
  connect.mockRestore()
  await pool.end()
})

// Red when its slot is kept: after as many events as there are slots, no event of any guard on the pool runs.
test('a `connect` of the user that answers nothing is refused and keeps no slot', async () => {
  const pool = await idlePool()
  vi.spyOn(pool, 'connect').mockReturnValue(Promise.resolve() as never)
  const releaseSlot = vi.fn()
  const lender = { pool, runtime: systemRuntime, ownsSessions: false, releaseSlot }
  await expect(takeConnection(lender)).rejects.toBeInstanceOf(ConfigurationError)
  await expect(connectForStatements(pool, fast)).rejects.toBeInstanceOf(ConfigurationError)
  expect(releaseSlot).toHaveBeenCalledTimes(1)
  await pool.end()
})

// Red when its slot is kept.
test('a listener of the pool that throws keeps no slot', async () => {
  const pool = await idlePool()
  const releaseSlot = vi.fn()
  const held = await takeConnection({
    ...{ pool, runtime: systemRuntime, ownsSessions: false, releaseSlot },
  })
  pool.once('release', () => {
    throw new Error('metrics')
  })
  expect(() => held.release()).toThrow('metrics')
  expect(releaseSlot).toHaveBeenCalledTimes(1)
  // The pool has lost that client.
  held.tx.connection.stream.destroy()
})

// Red when it is put on the client itself: every later event on that connection is deferred, and the breaker opens.
test('a handler may put its own query and release in place, as query loggers do', async () => {
  const pool = new Pool({ connectionString: (await database()).url, max: 3, idleTimeoutMillis: 0 })
  await migrate(pool)
  const logged: unknown[] = []
  const guard = createGuard({ consumer: 'billing', inbox: pgInbox(pool) }, async (_, { tx }) => {
    const query = tx.query.bind(tx) as (...args: unknown[]) => Promise<unknown>
    const release = () => undefined
    const own = (...args: unknown[]) => {
      logged.push(args[0])
      return query(...args)
    }
    Object.assign(tx, { query: own, release })
    await tx.query('select 1')
  })
  const keys = ['a', 'b', 'c', 'd', 'e']
  for (const key of keys) {
    const delivery = { ...DELIVERY, headers: { 'idempotency-key': key } }
    expect(await guard.process(delivery)).toEqual({ kind: 'ack', by: 'processed' })
  }
  expect(logged).toEqual(keys.map(() => 'select 1'))
  expect(pool.idleCount).toBe(pool.totalCount)
  await guard.close()
  await pool.end()
})
