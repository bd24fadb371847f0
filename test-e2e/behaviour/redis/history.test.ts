import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { createGuard, type Guard } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { migrate } from '@onceward/postgres'
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

// Red when keys in Redis do not carry the identity of the history: the event would be acked as a duplicate.
describe('trap T31: Redis says done, and Postgres has lost the commit', () => {
  test.each([
    ['after a restore of a backup', false],
    ['after the promotion of a standby that lacks it', true],
  ] as const)('%s the event runs again', async (_when, isStandby) => {
    const url = await prepared()
    const data = await dataDirectory()
    await server.kill('SIGINT')
    await copy(data, `${data}.backup`)
    await server.restart()
    await using scenario = await openScenario(url)
    const { guard, charges } = scenario
    const delivery = orderPlaced('order')
    expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
    expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate' })
    expect(await charges()).toBe(1)

    await server.kill('SIGINT')
    await run('rm', ['-r', data])
    await copy(`${data}.backup`, data)
    if (isStandby) await run('cp', ['-p', `${data}/PG_VERSION`, `${data}/standby.signal`])
    await server.restart()
    if (isStandby) await until(() => scenario.pool.query('select pg_promote()'))
    await isBack(scenario)
    expect(await charges()).toBe(0)
    scenario.wait(5_001)
    const settlement = await until(async () => {
      const answer = await guard.process(delivery)
      return answer.kind === 'ack' && answer
    })
    expect(settlement).toMatchObject({ by: 'processed' })
    expect(await charges()).toBe(1)
  })
})

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
    const settlement = await until(async () => {
      const answer = await guard.process(delivery)
      return answer.kind === 'ack' && answer
    })
    expect(settlement).toMatchObject({ by: 'duplicate' })
    expect(await scenario.charges()).toBe(1)
  })
})
