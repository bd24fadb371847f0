import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { createGuard, type Guard, type GuardEvent } from '@onceward/core'
import { portOf } from '@onceward/core/adapter'
import { toDelivery } from '@onceward/core/memory'
import { database, pgbouncer, postgres, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

type Handler = (tx: pg.PoolClient) => Promise<unknown>

let url: string
let admin: pg.Pool
beforeAll(async () => {
  url = (await database()).url
  admin = new pg.Pool({ connectionString: url, max: 2 })
  await migrate(admin)
  await admin.query('create table charges (key text)')
})
afterAll(() => admin.end())

/** Idle connections stay until the pool is ended. */
const KEPT = { idleTimeoutMillis: 0 }

const charge: Handler = (tx) => tx.query("insert into charges values ('x')")

function guardOn(config: pg.PoolConfig, handler: Handler, options: object = {}): Guard {
  return createGuard(
    { consumer: 'own-pool', inbox: pgInbox({ ...KEPT, ...config }), logger: silent, ...options },
    async (_: GuardEvent<{ readonly key: string }>, { tx }) => void (await handler(tx)),
  )
}

const next = () => toDelivery({ key: randomUUID() })

describe('a pool of the guard’s own', () => {
  // Red with pg's default, where it kept the only place for minutes.
  it('gives up a connection that is never answered', async () => {
    const { hostname, port } = new URL(url)
    let isSilent = false
    const sockets = new Set<Socket>()
    const proxy = createServer((client) => {
      sockets.add(client.on('error', () => undefined))
      if (isSilent) return
      const upstream = connect(Number(port), hostname)
      sockets.add(upstream.on('error', () => undefined))
      client.pipe(upstream).pipe(client)
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    const through = new URL(url)
    through.port = String((proxy.address() as AddressInfo).port)
    const guard = guardOn({ connectionString: through.href, max: 1 }, charge, { concurrency: 1 })
    try {
      expect(await guard.process(next())).toMatchObject({ kind: 'ack' })
      isSilent = true
      for (const socket of sockets) socket.destroy()
      sockets.clear()
      const delivery = next()
      const first = guard.process(delivery)
      await until(() => sockets.size > 0)
      isSilent = false
      expect(await first).toMatchObject({ kind: 'defer' })
      await until(async () => (await guard.process(delivery)).kind === 'ack', {
        deadlineMs: 60_000,
        everyMs: 500,
      })
    } finally {
      await guard.close()
      proxy.close()
      for (const socket of sockets) socket.destroy()
    }
  })

  it('carries the concurrency of the guard and two spare connections', async () => {
    const running = Promise.withResolvers<void>()
    let inHand = 0
    const guard = guardOn(
      { connectionString: url },
      async () => {
        inHand += 1
        if (inHand === 14) running.resolve()
        await running.promise
      },
      { concurrency: 14 },
    )
    const settled = await Promise.all(Array.from({ length: 14 }, () => guard.process(next())))
    expect(settled.map(({ kind }) => kind)).toEqual(Array(14).fill('ack'))
    await guard.close()
  })

  it('says that the server is down, and goes on when it is there', async () => {
    await using server = await postgres()
    const own = await server.createDatabase()
    const direct = new pg.Pool({ connectionString: own, max: 1 })
    await migrate(direct)
    await direct.end()
    const guard = guardOn({ connectionString: own }, async () => undefined)
    await server.kill('SIGKILL')
    expect(await guard.process(next())).toMatchObject({ kind: 'defer' })
    await server.restart()
    await until(async () => (await guard.process(next())).kind === 'ack')
    await guard.close()
  })

  it('survives an idle connection that the server ends', async () => {
    const name = 'idle ended'
    const guard = guardOn({ connectionString: url, application_name: name }, charge)
    await guard.process(next())
    await admin.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1',
      [name],
    )
    await until(async () => (await guard.process(next())).kind === 'ack')
    await guard.close()
  })
})

describe('the bounds of sessions of its own', () => {
  const show = async (tx: pg.PoolClient): Promise<Record<string, string>> => {
    const names = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout']
    const shown: Record<string, string> = {}
    for (const name of names) shown[name] = (await tx.query(`show ${name}`)).rows[0][name]
    return shown
  }

  it.each([
    ['nothing', '', { lock_timeout: '0', statement_timeout: '30s' }],
    ['a longer limit', '-c statement_timeout=2min', { statement_timeout: '30s' }],
    ['a shorter limit', '-c statement_timeout=7s', { statement_timeout: '7s' }],
    ['a limit for locks', '-c lock_timeout=9s', { lock_timeout: '9s' }],
  ])(
    'are in force for handlers where the user has set %s, also the second time',
    async (_, startup, expected) => {
      const seen: Record<string, string>[] = []
      const config = { connectionString: url, ...(startup === '' ? {} : { options: startup }) }
      const guard = guardOn(config, async (tx) => seen.push(await show(tx)), { deadlineMs: 30_000 })
      for (let time = 0; time < 3; time += 1) await guard.process(next())
      await guard.close()
      expect(seen).toHaveLength(3)
      for (const shown of seen) {
        expect(shown).toMatchObject({ ...expected, idle_in_transaction_session_timeout: '30s' })
      }
    },
  )

  it.each([
    'reset all',
    "set statement_timeout = '2h'",
    "set lock_timeout = '1h'",
    'discard plans',
  ])('are in force after a handler that sent: %s', async (statement) => {
    const seen: Record<string, string>[] = []
    let isFirst = true
    const guard = guardOn(
      { connectionString: url },
      async (tx) => {
        if (isFirst) await tx.query(statement)
        else seen.push(await show(tx))
        isFirst = false
      },
      { deadlineMs: 30_000, concurrency: 1 },
    )
    for (let time = 0; time < 4; time += 1) {
      expect(await guard.process(next())).toMatchObject({ kind: 'ack' })
    }
    await guard.close()
    expect(seen).toHaveLength(3)
    for (const shown of seen) {
      expect(shown).toEqual({
        lock_timeout: '0',
        statement_timeout: '30s',
        idle_in_transaction_session_timeout: '30s',
      })
    }
  })

  // Red when a connection keeps the limits of the first call on it: on Lambda a call with little time left, and every
  // later handler on that connection was cut off as early.
  it.each([
    ['no limit', '0', '30s'],
    ['a shorter limit', '7s', '7s'],
  ])('grow with a call that has more time, where the user has set %s', async (_, set, expected) => {
    const seen: unknown[] = []
    const config = { connectionString: url, options: `-c statement_timeout=${set}` }
    const handler: Handler = async (tx) => seen.push((await show(tx))['statement_timeout'])
    const guard = guardOn(config, handler, { deadlineMs: 30_000, concurrency: 1 })
    for (const budgetMs of [3_000, 100_000, 3_000, undefined])
      await portOf(guard).run([next()], { budgetMs })
    await guard.close()
    expect(seen).toEqual([expect.stringMatching(/^2\d{3}ms$/), expected, seen[2], expected])
  })
})

describe('behind PgBouncer in transaction mode', () => {
  it('bounds each transaction instead, and leaves nothing in the sessions of others', async () => {
    await using server = await postgres()
    const own = await server.createDatabase()
    const direct = new pg.Pool({ connectionString: own, max: 1 })
    await migrate(direct)
    const { hostname, port, username, pathname } = new URL(own)
    const name = pathname.slice(1)
    const connection = {
      url: own,
      host: hostname,
      port: Number(port),
      user: username,
      database: name,
    }
    const bouncer = await pgbouncer({ connection }, { settings: { default_pool_size: '2' } })
    const seen: string[] = []
    const guard = guardOn(
      { connectionString: bouncer.connection.url, max: 8 },
      async (tx) => seen.push((await tx.query('show statement_timeout')).rows[0].statement_timeout),
      { deadlineMs: 30_000 },
    )
    await Promise.all(Array.from({ length: 40 }, () => guard.process(next())))
    const others = new pg.Pool({ connectionString: bouncer.connection.url, max: 2 })
    const shown = await Promise.all(
      Array.from({ length: 8 }, () => others.query('show statement_timeout')),
    )
    await Promise.all([guard.close(), others.end(), direct.end()])
    await bouncer.stop()
    expect(seen).toEqual(Array(40).fill('30s'))
    expect(shown.map(({ rows }) => rows[0].statement_timeout)).toEqual(Array(8).fill('0'))
  })
})
