import { createGuard, type Delivery, FatalError, type Guard, type LeaseStore } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { migrate, postgresLeases } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import { database, type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { charge, createGate, orderPlaced, quiet } from '../traps/billing.ts'

let server: Server<RedisConnection>
let client: Redis
let pool: pg.Pool
const guards: Guard[] = []

beforeAll(async () => {
  server = await redis({ native: true })
  client = new Redis(server.connection.port, { retryStrategy: () => 20 })
  client.on('error', () => undefined)
  pool = new pg.Pool({ connectionString: (await database()).url, max: 6 })
  await migrate(pool)
  await pool.query('create table charges (key text not null, attempt int not null)')
})
afterAll(async () => {
  await Promise.all(guards.map((guard) => guard.close()))
  client.disconnect()
  await Promise.all([pool.end(), server.stop()])
})

/** A guard whose effect is outside Postgres. */
function mailing(
  leases: LeaseStore,
  handler: () => Promise<string>,
  times: { readonly leaseMs?: number; readonly claimWaitMs?: number } = {},
): Guard {
  const options = { consumer: 'mailing', onTakeover: 'retry', logger: quiet } as const
  const guard = createGuard({ ...options, ...times, leases }, handler)
  guards.push(guard)
  return guard
}

describe.each([
  ['redisLeases', (): LeaseStore => redisLeases(client)],
  ['postgresLeases', (): LeaseStore => postgresLeases(pool)],
])('effects outside Postgres, on %s', (name, leases) => {
  test('happen once, and their result is handed to duplicates of another process', async () => {
    const sent: string[] = []
    const send = async (): Promise<string> => `mail ${sent.push('mail')}`
    const [one, other] = [mailing(leases(), send), mailing(leases(), send)]
    const delivery = orderPlaced(`${name} once`)
    expect(await one.process(delivery)).toMatchObject({ by: 'processed', result: 'mail 1' })
    expect(await other.process(delivery)).toMatchObject({ by: 'duplicate', result: 'mail 1' })
    expect(sent).toHaveLength(1)
  })

  test('have one owner at a time, however long the handler runs', async () => {
    const gate = createGate()
    const slow = mailing(
      leases(),
      async () => {
        await gate.pass()
        return 'sent'
      },
      { leaseMs: 3_000 },
    )
    const other = mailing(leases(), async () => 'sent twice', { leaseMs: 3_000 })
    const delivery = orderPlaced(`${name} slow`)
    const running = slow.process(delivery)
    await gate.reached
    const endsAt = Date.now() + 5_000
    await until(async () => {
      const answer = await other.process(delivery)
      expect(answer).toMatchObject({ kind: 'defer', reason: 'in-progress' })
      return Date.now() > endsAt
    })
    gate.open()
    expect(await running).toMatchObject({ by: 'processed', result: 'sent' })
    expect(await other.process(delivery)).toMatchObject({ by: 'duplicate', result: 'sent' })
  })
})

describe.each([
  ['redisLeases', (): LeaseStore => redisLeases(client)],
  ['postgresLeases', (): LeaseStore => postgresLeases(pool)],
])('a copy beside a run in another process, on %s', (name, leases) => {
  // Red when a claim that is in progress is deferred at once.
  test('waits for it and gets its result', async () => {
    const gate = createGate()
    const wait = { claimWaitMs: 20_000 }
    const slow = mailing(
      leases(),
      async () => {
        await gate.pass()
        return 'sent'
      },
      wait,
    )
    const asked = Promise.withResolvers<void>()
    // Without `open`, so that the guard works on the store itself.
    const { open, ...store } = leases()
    expect(open).toBeDefined()
    const watched: LeaseStore = {
      ...store,
      claim: async (claims) => {
        const results = await store.claim(claims)
        asked.resolve()
        return results
      },
    }
    const other = mailing(watched, async () => 'sent twice', wait)
    const delivery = orderPlaced(`${name} twin`)
    const running = slow.process(delivery)
    await gate.reached
    const copy = other.process(delivery)
    await asked.promise
    gate.open()
    expect(await running).toMatchObject({ by: 'processed', result: 'sent' })
    expect(await copy).toMatchObject({ by: 'duplicate', result: 'sent' })
  })
})

test('a dead event without an inbox runs again once an operator replays it', async () => {
  const leases = redisLeases(client)
  let isBroken = true
  const guard = mailing(leases, async () => {
    if (isBroken) throw new FatalError('no such address')
    return 'sent'
  })
  const delivery = orderPlaced('dead')
  expect(await guard.process(delivery)).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
  isBroken = false
  const { rows } = await pool.query('select onceward.event_id($1, null, $2) as id', [
    'mailing',
    delivery.headers['idempotency-key'],
  ])
  expect(await leases.replay([rows[0].id])).toEqual([true])
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed', result: 'sent' })
})

test('a guard without an inbox waits for a Redis that is down', async () => {
  const sent: string[] = []
  const guard = mailing(redisLeases(client), async () => `mail ${sent.push('mail')}`)
  await guard.process(orderPlaced('before'))
  await server.kill()
  const delivery = orderPlaced('down')
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'store-down' })
  expect(sent).toHaveLength(1)
  await server.restart()
  const settlement = await until(async () => {
    const answer = await guard.process(delivery)
    return answer.kind === 'ack' && answer
  })
  expect(settlement).toMatchObject({ by: 'processed', result: 'mail 2' })
})

// Red when a completion that Redis did not take is not told again: the lease expires, and the effect happens twice.
test('a failover in the middle of a handler is not a takeover for a guard that survives it', async () => {
  const sent: string[] = []
  const admin = client.duplicate()
  const send = async (): Promise<string> => {
    if (sent.length === 0) await admin.replicaof('127.0.0.1', 1)
    return `mail ${sent.push('mail')}`
  }
  const [one, other] = [0, 1].map(() => mailing(redisLeases(client), send)) as [Guard, Guard]
  const delivery = orderPlaced('failover')
  expect(await one.process(delivery)).toMatchObject({ kind: 'abandon', reason: 'lease-lost' })
  await admin.replicaof('NO', 'ONE')
  const settlement = await until(async () => {
    const answer = await other.process(delivery)
    return answer.kind === 'ack' && answer
  })
  expect(settlement).toMatchObject({ by: 'duplicate', result: 'mail 1' })
  admin.disconnect()
})

test('postgresLeases work beside an inbox on the same pool', async () => {
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: pgInbox(pool), leases: postgresLeases(pool) },
      ...{ logger: quiet, runtime: systemRuntime },
    },
    charge,
  )
  guards.push(guard)
  const deliveries = Array.from({ length: 60 }, (_, index) => orderPlaced(`order-${index % 30}`))
  // A copy that waits longer than `claimWaitMs` is deferred and comes again.
  const isAcked = async (delivery: Delivery): Promise<boolean> =>
    (await guard.process(delivery)).kind === 'ack'
  await Promise.all(deliveries.map((delivery) => until(() => isAcked(delivery))))
  const { rows } = await pool.query('select count(*)::int as n from charges')
  expect(rows[0].n).toBe(30)
  expect((await pool.query('select 1 from onceward.leases where state = $1', ['p'])).rows).toEqual(
    [],
  )
})
