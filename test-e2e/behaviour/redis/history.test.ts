import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import {
  createGuard,
  type Delivery,
  type Destination,
  type Guard,
  type Settlement,
} from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import { systemRuntime } from '@onceward/core/ports'
import { migrate } from '@onceward/postgres'
import { startRelay } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import { redisLeases } from '@onceward/redis'
import {
  type PostgresServer,
  postgres,
  type RedisConnection,
  redis,
  type Server,
  until,
} from '@onceward/testing'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { charge, orderPlaced, quiet } from '../traps/billing.ts'

const run = promisify(execFile)

let cache: Server<RedisConnection>
let client: Redis
let server: PostgresServer
const servers: PostgresServer[] = []

beforeAll(async () => {
  cache = await redis({ native: true })
  client = new Redis(cache.connection.port)
})
beforeEach(async () => {
  const settings = { synchronous_commit: 'off', wal_writer_delay: '10s' }
  server = await postgres({ native: true, settings })
  servers.push(server)
})
afterAll(async () => {
  client.disconnect()
  await Promise.all([...servers, cache].map((one) => one.stop()))
})

interface Scenario extends AsyncDisposable {
  readonly guard: Guard
  readonly pool: pg.Pool
  /** Advances the guard's clock. */
  wait(ms: number): void
  charges(): Promise<number>
}

async function openScenario(url: string): Promise<Scenario> {
  const pool = new pg.Pool({ connectionString: url, max: 6 })
  pool.on('error', () => undefined)
  let waitedMs = 0
  const runtime = {
    ...systemRuntime,
    now: () => (systemRuntime.now() + waitedMs) as ReturnType<typeof systemRuntime.now>,
    monotonic: () => systemRuntime.monotonic() + waitedMs,
  }
  const leases = redisLeases(client, { budgetMs: 10_000 })
  const guard = createGuard(
    { consumer: 'billing', inbox: pgInbox(pool), leases, logger: quiet, runtime },
    charge,
  )
  return {
    guard,
    pool,
    wait: (ms) => {
      waitedMs += ms
    },
    charges: async () => {
      const { rows } = await pool.query('select count(*)::int as n from charges')
      return rows[0].n
    },
    [Symbol.asyncDispose]: async () => {
      await guard.close()
      await pool.end()
    },
  }
}

async function prepared(): Promise<string> {
  const url = await server.createDatabase()
  const options = '-c synchronous_commit=on'
  const pool = new pg.Pool({ connectionString: url, max: 1, options })
  await migrate(pool)
  await pool.query('create table charges (key text not null, attempt int not null)')
  await pool.end()
  return url
}

async function dataDirectory(): Promise<string> {
  const own = new pg.Client({ connectionString: server.connection.url })
  await own.connect()
  const { rows } = await own.query('show data_directory')
  await own.end()
  return rows[0].data_directory
}

/** Resolves when Postgres answers again and has the history of the server that took over. */
async function isBack({ pool }: Scenario): Promise<void> {
  await until(() => pool.query('select pg_current_wal_lsn()'))
}

/** Copies the data of a server that is not running. */
const copy = (from: string, to: string): Promise<unknown> => run('cp', ['-Rp', from, to])

interface Loss {
  readonly isStandby: boolean
}

const LOSSES: readonly (readonly [when: string, loss: Loss])[] = [
  ['after a restore of a backup', { isStandby: false }],
  ['after the promotion of a standby that lacks it', { isStandby: true }],
]

/** A copy of the data as it is now, from which the server can start again. */
async function backedUp({ isStandby }: Loss) {
  const data = await dataDirectory()
  await server.kill('SIGINT')
  await copy(data, `${data}.backup`)
  await server.restart()
  return {
    takesOver: async (scenario: Scenario): Promise<void> => {
      await server.kill('SIGINT')
      await run('rm', ['-r', data])
      await copy(`${data}.backup`, data)
      if (isStandby) await run('cp', ['-p', `${data}/PG_VERSION`, `${data}/standby.signal`])
      await server.restart()
      if (isStandby) await until(() => scenario.pool.query('select pg_promote()'))
      await isBack(scenario)
      scenario.wait(5_001)
    },
  }
}

const settled = (guard: Guard, delivery: Delivery): Promise<Settlement> =>
  until(async () => {
    const answer = await guard.process(delivery)
    return answer.kind === 'ack' && answer
  })

// Red when keys in Redis do not carry the identity of the history: the event would be acked as a duplicate.
describe('trap T31: Redis says done, and Postgres has lost the commit', () => {
  test.each(LOSSES)('%s the event runs again', async (_when, loss) => {
    const url = await prepared()
    const backup = await backedUp(loss)
    await using scenario = await openScenario(url)
    const { guard, charges } = scenario
    const delivery = orderPlaced('order')
    expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
    expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate' })
    expect(await charges()).toBe(1)
    await backup.takesOver(scenario)
    expect(await charges()).toBe(0)
    expect(await settled(guard, delivery)).toMatchObject({ by: 'processed' })
    expect(await charges()).toBe(1)
  })
})

/** A broker with a guard behind it. It does not confirm while it is asked to wait. */
function receiver() {
  const published: { readonly id: string; readonly order: unknown }[] = []
  const effects: unknown[] = []
  const guard = createGuard(
    { consumer: 'payments', inbox: memoryInbox(), logger: quiet },
    async ({ payload }) => void effects.push(payload),
  )
  let confirming: Promise<void> = Promise.resolve()
  const payments: Destination = {
    batch: 1,
    publish: async ([message]) => {
      if (message === undefined) throw new Error('expected a message')
      const { id, payload } = message
      const order: unknown = JSON.parse(Buffer.from(payload).toString())
      published.push({ id, order })
      await guard.process(toDelivery(order, { headers: { 'idempotency-key': id } }))
      await confirming
      return [undefined]
    },
  }
  return {
    payments,
    published,
    effects,
    wait: (until: Promise<void>): void => {
      confirming = until
    },
    idsOf: (order: string) => published.flatMap((each) => (each.order === order ? each.id : [])),
  }
}

// Red when ids are drawn, and when a relay deletes by position: the new message has the one of the lost message, whose
// call it has in hand.
test.each(LOSSES)(
  '%s messages leave again with their ids, and no new one is lost',
  async (_when, loss) => {
    const url = await prepared()
    await using scenario = await openScenario(url)
    const { pool } = scenario
    const orders = createGuard(
      { consumer: 'orders', inbox: pgInbox(pool), logger: quiet },
      async ({ key }, { outbox }) => outbox.send({ to: 'payments', key: 'k', payload: key }),
    )
    await settled(orders, orderPlaced('kept'))
    const backup = await backedUp(loss)
    await isBack(scenario)
    const { effects, idsOf, payments, published, wait } = receiver()
    const relay = await startRelay({ pool, destinations: { payments }, logger: quiet })
    await until(() => published.length === 1)
    const confirmed = Promise.withResolvers<void>()
    wait(confirmed.promise)
    await settled(orders, orderPlaced('lost'))
    await until(() => published.length === 2)
    await backup.takesOver(scenario)
    await settled(orders, orderPlaced('new'))
    confirmed.resolve()
    await settled(orders, orderPlaced('lost'))
    await until(() => idsOf('new').length > 0 && idsOf('lost').length > 1)
    expect(published.map(({ order }) => order)).toEqual(['kept', 'lost', 'kept', 'new', 'lost'])
    expect(['kept', 'lost', 'new'].map((order) => new Set(idsOf(order)).size)).toEqual([1, 1, 1])
    expect(new Set(published.map(({ id }) => id)).size).toBe(3)
    expect(effects).toEqual(['kept', 'lost', 'new'])
    await relay.drain()
    await orders.close()
  },
)

describe('the identity of a history', () => {
  const identityOf = async (url: string): Promise<string> => {
    await using scenario = await openScenario(url)
    const { pool } = scenario
    const session = await pgInbox(pool).open({
      ...{ consumer: 'billing', dedupWindowMs: 60_000, fingerprintRule: 1, maxAttempts: 3 },
      ...{ concurrency: 1, concurrencyChosen: false, logger: quiet, runtime: systemRuntime },
    })
    return await session.identity()
  }

  test('is the same for all guards, and differs in another database and after a crash', async () => {
    const url = await prepared()
    const before = await identityOf(url)
    expect(await identityOf(url)).toBe(before)
    expect(await identityOf(await prepared())).not.toBe(before)
    await server.kill()
    await server.restart()
    expect(await identityOf(url)).not.toBe(before)
  })

  test('with synchronous_commit = off a crash loses no commit that was acked', async () => {
    await using scenario = await openScenario(await prepared())
    const { guard } = scenario
    const delivery = orderPlaced('order')
    expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
    await server.kill()
    await server.restart()
    await isBack(scenario)
    scenario.wait(5_001)
    expect(await settled(guard, delivery)).toMatchObject({ by: 'duplicate' })
    expect(await scenario.charges()).toBe(1)
  })
})
