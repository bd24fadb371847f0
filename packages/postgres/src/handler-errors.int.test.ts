import { createServer } from 'node:http'
import { createGuard, type Delivery, type Guard, type Settlement } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import Cursor from 'pg-cursor'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Run } from './fixtures/clients.ts'
import { DRIVERS, type Guards, order } from './fixtures/guards.ts'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

// Red when an error that the server answers to a handler's statement is taken for an outage of the store: the event is
// never counted, and the breaker turns all other events away.

const STATES = [
  ...['08000', '08001', '08003', '08006', '08P01'],
  ...['25006', '25P03', '25P04', '28000', '3D000'],
  ...['53000', '53100', '53200', '53300', '53400'],
  ...['57000', '57014', '57P01', '57P02', '57P03', '57P04', '57P05'],
  ...['58000', '58030', '58P01', 'XX000', '22003', '23505', '42501', '42P01'],
]

const raising = (state: string): string =>
  `do $$ begin raise exception 'the foreign server is down' using errcode = '${state}'; end $$`

const unreadable = (name: string, cause: unknown): Error =>
  Object.defineProperty(new Error('the transfer failed', { cause }), name, {
    get: () => {
      throw new Error(`reading ${name} throws`)
    },
  })

/** How a handler passes on what its statement answered. */
const PASSED_ON: Readonly<Record<string, (error: unknown) => unknown>> = {
  raw: (error) => error,
  'as a cause': (error) => new Error('the transfer failed', { cause: error }),
  'as a plain object': (error) => ({ code: (error as { code: string }).code }),
  'as a message of a driver': () => new Error('Connection terminated unexpectedly'),
  // Red before: the transaction stayed open, its connection never came back, and the event was held for ever.
  'with errors that cannot be read': (error) => unreadable('errors', error),
  'as a cause that cannot be read': (error) =>
    new Error('the transfer failed', { cause: unreadable('message', error) }),
  'as ECONNREFUSED': () => Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }),
}

const RETRIES = 3

/** Delivers until the event is settled for good. The bound is the most that any rule allows. */
async function endOf(guard: Guard, delivery: Delivery): Promise<Settlement> {
  return until(async () => {
    const settlement = await guard.process(delivery)
    return settlement.kind === 'dead-letter' && settlement
  })
}

/** Resolves when the client of that backend reads its last message. */
async function lastMessage({ pool }: Guards, pid: number): Promise<unknown> {
  const clients = Reflect.get(pool ?? {}, '_clients') as readonly pg.PoolClient[]
  const client = clients.find((each) => Reflect.get(each, 'processID') === pid)
  const { promise, resolve } = Promise.withResolvers<unknown>()
  // First, because the listener of pg throws over Kysely.
  client?.connection.prependListener('errorMessage', resolve)
  return promise
}

describe.each(DRIVERS)('errors of statements of a handler over $name', ({ name, connect }) => {
  let guards: Guards
  let url: string

  beforeAll(async () => {
    url = (await database()).url
    guards = await connect({ url })
    if (guards.pool !== undefined) await migrate(guards.pool)
    await guards.admin('create table effects (key text primary key)')
  })
  afterAll(() => guards.close())

  /** A guard whose handler fails on demand, and what its runs were. */
  function failing(fail: (run: Run) => Promise<unknown>, transaction: 'each' | 'batch') {
    const runs: string[] = []
    const guard = guards.make(
      async ({ payload, key }, run) => {
        runs.push(key)
        if (payload['fails'] === true) await fail(run)
        await run('insert into effects values ($1)', [key])
        return undefined
      },
      { transaction },
    )
    return { guard, runs }
  }

  async function expectCounted(fail: (run: Run) => Promise<unknown>, mode: 'each' | 'batch') {
    const { guard, runs } = failing(fail, mode)
    const bad = order({ fails: true })
    const first = await guard.processBatch([order(), bad, order()])
    expect(first.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'ack'])
    expect(first[1]).toMatchObject({ reason: 'failed', cause: 'handler-failed' })
    // The breaker is closed: other events run at once.
    expect(await guard.process(order())).toMatchObject({ kind: 'ack' })
    expect(await endOf(guard, bad)).toMatchObject({ reason: 'attempts-spent' })
    const key = bad.headers['idempotency-key']
    // In a shared transaction the first failure has no verdict: the event runs again alone in its transaction.
    const most = mode === 'batch' ? RETRIES + 1 : RETRIES
    expect(runs.filter((each) => each === key)).toHaveLength(most)
    await guard.close()
  }

  it.each(STATES)('%s is a failure of its event', async (state) => {
    await expectCounted((run) => run(raising(state)), 'each')
  })

  it.each(
    Object.entries(PASSED_ON).flatMap(([how, wrap]) => [
      { how, wrap, mode: 'each' as const },
      { how, wrap, mode: 'batch' as const },
    ]),
  )('08006, passed on $how, is a failure of its event: $mode', async ({ wrap, mode }) => {
    await expectCounted(async (run) => {
      await run(raising('08006')).catch((error: unknown) => {
        throw wrap(error)
      })
    }, mode)
  })

  // Red when a run that is repeated after a serialization failure gets the payload that the run before it changed.
  it.each(
    ['40001', '40P01'].flatMap((state) => [
      { state, mode: 'each' as const },
      { state, mode: 'batch' as const },
    ]),
  )('after $state the handler gets its payload unchanged: $mode', async ({ mode, state }) => {
    const seen: unknown[] = []
    const guard = guards.make(
      async ({ payload }, run) => {
        const cents = payload['cents'] as number
        seen.push(cents)
        Object.assign(payload, { cents: cents + 1 })
        if (seen.length <= 2) await run(raising(state))
        return undefined
      },
      { transaction: mode },
    )
    const settled = await guard.processBatch([order({ cents: 100 }), order({ cents: 100 })])
    expect(settled.map(({ kind }) => kind)).toEqual(['ack', 'ack'])
    expect(seen.length).toBeGreaterThan(3)
    expect(new Set(seen)).toEqual(new Set([100]))
    await guard.close()
  })

  it('a connection that another program refuses is a failure of the event', async () => {
    const closed = createServer().listen(0)
    const { port } = closed.address() as { port: number }
    await new Promise((resolve) => closed.close(resolve))
    await expectCounted(() => fetch(`http://127.0.0.1:${port}`), 'each')
    const other = new pg.Client({ host: '127.0.0.1', port })
    await expectCounted(() => new pg.Client({ host: '127.0.0.1', port }).connect(), 'each')
    await other.end().catch(() => undefined)
  })

  // Red before: the record of the failure waited five seconds behind the cursor, and counted as an outage of the store.
  it.runIf(name === 'pg')('a handler that fails with an open cursor is counted', async () => {
    const guard = createGuard(
      { consumer: 'cursors', inbox: pgInbox(guards.pool as pg.Pool), logger: silent },
      async (_, { tx }) => {
        await tx.query(new Cursor('select generate_series(1, 1000)')).read(1)
        throw new Error('the row is not there')
      },
    )
    expect(await guard.process(order())).toMatchObject({ kind: 'defer', cause: 'handler-failed' })
    await guard.close()
  })

  it('an error that the server answers to COMMIT is a failure of the event', async () => {
    await guards.admin(`
      create table approvals (key text);
      create function refuse() returns trigger language plpgsql as
        $$ begin raise exception 'down' using errcode = '08006'; end $$;
      create constraint trigger refused after insert on approvals
        deferrable initially deferred for each row execute function refuse()`)
    await expectCounted((run) => run("insert into approvals values ('x')"), 'each')
  })

  // Red when the last message of the server is missed between two statements: the breaker turns other events away.
  it.runIf(name !== 'pglite').each(['at once', 'after the server said so'])(
    'a backend that is really ended says nothing about its event: the next statement is sent %s',
    async (when) => {
      const admin = new pg.Client({ connectionString: url })
      await admin.connect()
      const { guard, runs } = failing(async (run) => {
        const [row] = await run('select pg_backend_pid() as pid')
        const pid = Number(row?.['pid'])
        const said = when === 'at once' ? undefined : lastMessage(guards, pid)
        await admin.query('select pg_terminate_backend($1)', [pid])
        await said
        await run('select pg_sleep(5)')
      }, 'each')
      const ended = await guard.process(order({ fails: true }))
      expect(ended).toMatchObject({ kind: 'defer', cause: 'store-error' })
      expect(runs).toHaveLength(1)
      expect(await guard.process(order())).toMatchObject({ kind: 'ack' })
      await guard.close()
      await admin.end()
    },
  )
})
