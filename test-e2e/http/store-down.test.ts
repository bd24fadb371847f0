import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { createHttpGuard, type HttpGuard } from '@onceward/http'
import { createWebhookGuard } from '@onceward/http/webhooks'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import {
  type PostgresConnection,
  type PostgresServer,
  postgres,
  proxy,
  type RedisConnection,
  redis,
  type Server,
  skipped,
  type TcpProxy,
  until,
} from '@onceward/testing'
import { hotStandby } from '@onceward/testing/adapter'
import { Redis } from 'ioredis'
import { Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silent } from '../../packages/http/src/fixtures/charges.ts'
import type { HttpHandler } from '../../packages/http/src/options.ts'
import { targetOf, through } from '../support/crash/wire-faults.ts'
import type { Edge } from './protocol.ts'
import { type Ledger, openLedger } from './scenario.ts'

let primary: PostgresServer
let standby: Server<PostgresConnection>
beforeAll(async () => {
  // A standby needs the files of its primary, so this is not the shared server.
  primary = await postgres({ native: true })
  standby = await hotStandby(primary)
})
afterAll(async () => {
  await standby.stop()
  await primary.stop()
})

/** What happens to a store, and how that ends. */
const OUTAGES: Readonly<Record<string, (way: TcpProxy) => Promise<() => Promise<unknown>>>> = {
  'refuses connections': async (way) => {
    way.refuse(true)
    way.cut()
    return async () => way.refuse(false)
  },
  'takes no connections': async (way) => {
    await way.ignore(true)
    way.cut()
    return () => way.ignore(false)
  },
  'does not answer': async (way) => {
    way.pause()
    return async () => way.resume()
  },
  'is a read-only standby': async (way) => {
    const before = way.target
    way.target = standby.connection
    way.cut()
    return async () => {
      way.target = before
      way.cut()
    }
  },
}

/** A standby lags behind its primary: without its tables the guard would see another error. */
async function replicated({ pool }: Ledger): Promise<void> {
  const { rows } = await pool.query('select pg_current_wal_lsn() as lsn')
  const text = 'select from pg_stat_replication where replay_lsn >= $1'
  await until(async () => (await pool.query(text, [rows[0].lsn])).rowCount === 1)
}

const charge: HttpHandler<unknown, PoolClient> = async ({ key }, { tx }) => {
  await tx.query('insert into charges (id, key, cents) values ($1, $2, 1)', [randomUUID(), key])
  return { status: 200, body: 'charged' }
}

function guardOf(edge: Edge, connectionString: string): HttpGuard {
  const pool = new Pool({ connectionString, max: 4, connectionTimeoutMillis: 1_000 })
  pool.on('error', () => undefined)
  const options = {
    consumer: 'charges',
    inbox: pgInbox(pool),
    tenant: 'none',
    logger: silent,
    deadlineMs: 2_000,
    leaseMs: 5_000,
  } as const
  const verify = ({ headers }: { readonly headers: Headers }) =>
    ({ kind: 'verified', eventId: headers.get('idempotency-key') ?? undefined }) as const
  switch (edge) {
    case 'request':
      return createHttpGuard(options, charge)
    case 'webhook':
      return createWebhookGuard({ ...options, verify }, charge)
    case 'webhook later':
      return createWebhookGuard({ ...options, verify, run: 'later' }, charge)
  }
}

const send = (guard: HttpGuard, key: string): Promise<Response> =>
  guard.fetch(
    new Request('http://localhost/charges', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: '{}',
    }),
  )

async function allUnavailable(guard: HttpGuard, keys: readonly string[]): Promise<void> {
  for (const answer of await Promise.all(keys.map((key) => send(guard, key)))) {
    expect(answer.status).toBe(503)
    expect(await answer.json()).toMatchObject({ type: 'urn:onceward:unavailable' })
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  }
}

/** Only the row of an event makes a 503 safe: the client or the provider sends it again. */
describe.concurrent.each(['request', 'webhook', 'webhook later'] as const)('a %s', (edge) => {
  test.each(Object.keys(OUTAGES))(
    'while Postgres %s is answered 503 with Retry-After, and runs once afterwards',
    async (outage) => {
      await using ledger = await openLedger(await primary.createDatabase())
      await using way = await proxy(targetOf(ledger.url))
      const guard = guardOf(edge, through(ledger.url, way))
      const accepted = edge === 'webhook later' ? 202 : 200
      const answered = async (key: string) => (await send(guard, key)).status === accepted
      await until(() => answered('before'))
      await until(async () => (await ledger.charges())['before'] === 1)
      await replicated(ledger)

      const end = await OUTAGES[outage]?.(way)
      const keys = ['a', 'b', 'c']
      await allUnavailable(guard, keys)
      // A process may know what it has answered, and a standby can be read.
      expect([503, accepted]).toContain((await send(guard, 'before')).status)
      await end?.()

      for (const key of [...keys, 'before']) {
        await until(() => answered(key), { deadlineMs: 60_000, what: `an answer to ${key}` })
      }
      const once = { before: 1, a: 1, b: 1, c: 1 }
      await until(async () => isDeepStrictEqual(await ledger.charges(), once), { what: 'the runs' })
      await guard.close()
    },
  )
})

describe.skipIf(skipped('redis'))('a request with leases alone', () => {
  let server: Server<RedisConnection>
  beforeAll(async () => {
    server = await redis()
  })
  afterAll(() => server.stop())

  test.each(Object.keys(OUTAGES).filter((outage) => !outage.includes('standby')))(
    'while Redis %s is answered 503 with Retry-After, and runs once afterwards',
    async (outage) => {
      await using way = await proxy(targetOf(server.connection.url))
      const client = new Redis(way.port, { retryStrategy: () => 50 })
      client.on('error', () => undefined)
      const ran: string[] = []
      const leases = redisLeases(client, { namespace: randomUUID() })
      const options = { consumer: 'mails', leases, onTakeover: 'retry', tenant: 'none' } as const
      const guard = createHttpGuard({ ...options, logger: silent }, ({ key }) => {
        ran.push(key)
      })
      const answered = async (key: string) => (await send(guard, key)).status === 204
      await until(() => answered('before'))

      const end = await OUTAGES[outage]?.(way)
      await allUnavailable(guard, ['a', 'b', 'before'])
      expect(ran).toEqual(['before'])
      await end?.()

      for (const key of ['a', 'b', 'before']) {
        await until(() => answered(key), { deadlineMs: 60_000, what: `an answer to ${key}` })
      }
      expect(ran.toSorted()).toEqual(['a', 'b', 'before'])
      await guard.close()
      client.disconnect()
    },
  )
})
