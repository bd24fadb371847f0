import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { PGlite } from '@electric-sql/pglite'
import { createGuard, type Inbox, type Logger } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { Kysely, PGliteDialect, PostgresDialect, sql, type Transaction } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PoolLike } from './client.ts'
import { order, poolOf } from './fixtures/guards.ts'
import { deadLetters } from './index.ts'
import { kyselyInbox } from './kysely.ts'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

// Red when a rejection is unhandled: Vitest fails the run, as Node ends a process.

interface Tables {
  effects: { key: string }
  nosuch: { key: string }
}

/** A handler's ways to send statements. */
interface Sends {
  /** Their promises are those of the library. */
  insert(table: keyof Tables, key: string): Promise<unknown>
  raw(text: string): Promise<unknown>
}

interface Client {
  readonly inbox: Inbox<never>
  readonly over: (tx: never) => Sends
  readonly count: (key: string) => Promise<number>
  readonly operator: PoolLike
  readonly close: () => Promise<unknown>
}

const overPg = (tx: pg.PoolClient): Sends => ({
  insert: (table, key) => tx.query(`insert into ${table} (key) values ($1)`, [key]),
  raw: (text) => tx.query(text),
})

const overKysely = (tx: Transaction<Tables>): Sends => ({
  insert: (table, key) => tx.insertInto(table).values({ key }).execute(),
  raw: (text) => sql.raw(text).execute(tx),
})

function onKysely(
  db: Kysely<Tables>,
  { close, operator }: Pick<Client, 'close' | 'operator'>,
): Client {
  const count = async (key: string): Promise<number> =>
    (await db.selectFrom('effects').where('key', '=', key).select('key').execute()).length
  return { inbox: kyselyInbox(db) as Inbox<never>, over: overKysely, count, close, operator }
}

async function newPool(): Promise<pg.Pool> {
  const pool = new pg.Pool({ connectionString: (await database()).url, max: 6 })
  await migrate(pool)
  await pool.query('create table effects (key text primary key)')
  return pool
}

const CLIENTS: Readonly<Record<string, () => Promise<Client>>> = {
  pg: async () => {
    const pool = await newPool()
    const count = async (key: string): Promise<number> =>
      (await pool.query('select from effects where key = $1', [key])).rowCount ?? 0
    return {
      ...{ inbox: pgInbox(pool) as Inbox<never>, over: overPg, count, operator: pool },
      close: () => pool.end(),
    }
  },
  Kysely: async () => {
    const pool = await newPool()
    const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
    return onKysely(db, { close: () => db.destroy(), operator: pool })
  },
  PGlite: async () => {
    const pglite = await PGlite.create()
    await migrate(poolOf(pglite))
    await pglite.exec('create table effects (key text primary key)')
    const db = new Kysely<Tables>({ dialect: new PGliteDialect({ pglite }) })
    return onKysely(db, { close: () => db.destroy(), operator: poolOf(pglite) })
  },
}

type Handler = (sends: Sends, key: string) => Promise<unknown> | undefined

/** Until the answer of a statement that was not awaited has come. */
async function otherWork(): Promise<void> {
  const until = performance.now() + 200
  while (performance.now() < until) await turn()
}

const NOT_AWAITED = 'a statement was not awaited: insert into nosuch'
const ABSENT = 'relation "nosuch" does not exist'

const FORGOTTEN: Readonly<Record<string, readonly [handler: Handler, message: string]>> = {
  'the handler returns': [
    async ({ insert }) => {
      void insert('nosuch', 'a')
    },
    NOT_AWAITED,
  ],
  'another statement follows': [
    async ({ insert }, key) => {
      void insert('nosuch', 'a')
      await insert('effects', key)
    },
    NOT_AWAITED,
  ],
  'another statement follows whose error is ignored': [
    async ({ insert }, key) => {
      void insert('nosuch', 'a')
      await insert('effects', key).catch(() => undefined)
    },
    NOT_AWAITED,
  ],
  'other work follows': [
    async ({ insert }, key) => {
      await insert('effects', key)
      void insert('nosuch', 'a')
      await otherWork()
    },
    NOT_AWAITED,
  ],
  'a savepoint undoes it': [
    async ({ insert, raw }, key) => {
      await insert('effects', key)
      await raw('savepoint a')
      void insert('nosuch', 'a')
      await raw('rollback to a')
    },
    NOT_AWAITED,
  ],
  'something is made of its promise': [
    async ({ insert }) => {
      void insert('nosuch', 'a').then((answer) => answer)
      await otherWork()
    },
    NOT_AWAITED,
  ],
  'its promise gets a finally': [
    async ({ insert }) => {
      void insert('nosuch', 'a').finally(() => undefined)
      await otherWork()
    },
    NOT_AWAITED,
  ],
  'a function of the handler sends it, and the handler returns': [
    async ({ raw }) => {
      void (async () => {
        await raw('insert into nosuch values (1)')
      })()
    },
    NOT_AWAITED,
  ],
  'a function of the handler sends it, and another statement follows': [
    async ({ insert, raw }, key) => {
      void (async () => {
        await raw('insert into nosuch values (1)')
      })()
      await insert('effects', key)
    },
    ABSENT,
  ],
}

const AWAITED: Readonly<Record<string, Handler>> = {
  'one by one': ({ insert }) => insert('nosuch', 'a'),
  'all at once': ({ insert }, key) =>
    Promise.all([insert('nosuch', 'a'), insert('effects', key), insert('effects', `${key} b`)]),
  'all at once, settled': async ({ insert }, key) => {
    const sent = [insert('nosuch', 'a'), insert('effects', key), insert('effects', `${key} b`)]
    for (const each of await Promise.allSettled(sent)) {
      if (each.status === 'rejected') throw each.reason
    }
  },
  'later than it fails': async ({ insert }) => {
    const sent = insert('nosuch', 'a')
    await otherWork()
    await sent
  },
}

describe.each(Object.entries(CLIENTS))('statements over %s', (_name, connect) => {
  let client: Client
  beforeAll(async () => {
    client = await connect()
  })
  afterAll(() => client.close())

  async function settle(handler: Handler, logger: Logger = silent) {
    const key = randomUUID()
    const guard = createGuard(
      { consumer: randomUUID(), inbox: client.inbox, retry: { attempts: 1 }, logger },
      async (event, { tx }) => {
        await handler(client.over(tx), event.key)
      },
    )
    const settlement = await guard.process(order({}, key))
    await guard.close()
    return { settlement, effects: await client.count(key) }
  }

  const failedWith = (message: string, code: string) => ({
    settlement: {
      kind: 'dead-letter',
      error: { message: expect.stringContaining(message), ...(code === '' ? {} : { code }) },
    },
    effects: 0,
  })

  it.each(Object.entries(FORGOTTEN))(
    'fail the run if they fail and are not awaited: %s',
    async (_case, [handler, message]) => {
      const code = message === ABSENT ? '42P01' : 'ONCEWARD_RETRYABLE'
      const end = await settle(handler)
      expect(end).toMatchObject(failedWith(message, code))
      const { error } = end.settlement as { readonly error: Error }
      if (message === NOT_AWAITED) expect(error.cause).toMatchObject({ code: '42P01' })
    },
  )

  // Red when an awaited statement is called forgotten, or when its error never comes.
  it.each(Object.entries(AWAITED))(
    'fail the run with their own error if they are awaited: %s',
    async (_case, handler) => {
      expect(await settle(handler)).toMatchObject(failedWith(ABSENT, '42P01'))
    },
  )

  it('are committed if they succeed before the commit, awaited or not', async () => {
    const end = await settle(async ({ insert }, key) => {
      void insert('effects', key)
    })
    expect(end).toMatchObject({ settlement: { kind: 'ack' }, effects: 1 })
  })

  // Red before: the event was done without the statement, and nobody could find out which event it was.
  it('that come after the handler has returned are reported with their event, which an operator can run again', async () => {
    const lines: unknown[] = []
    const logger = { ...silent, error: (fields: object, text: string) => lines.push(fields, text) }
    const late = Promise.withResolvers<void>()
    const refused = Promise.withResolvers<void>()
    const key = randomUUID()
    let runs = 0
    const helper = async ({ insert }: Sends): Promise<void> => {
      if (runs === 1) await late.promise
      await insert('effects', key)
    }
    const guard = createGuard(
      { consumer: randomUUID(), inbox: client.inbox, logger },
      async (_event, { tx }) => {
        runs += 1
        const sends = client.over(tx)
        if (runs === 1) helper(sends).catch(() => refused.resolve())
        else await helper(sends)
      },
    )
    expect(await guard.process(order({}, key))).toMatchObject({ kind: 'ack' })
    late.resolve()
    // The rejection of a helper that nobody awaits ends the process.
    await refused.promise
    const { eventId } = lines[0] as { readonly eventId: string }
    expect(lines).toEqual([
      { consumer: guard.consumer, eventId, statement: expect.any(String) },
      expect.stringContaining('the event is done without it'),
    ])
    const letters = deadLetters(client.operator, { by: 'alice' })
    expect(await letters.show(eventId)).toMatchObject({
      ...{ reason: 'late-statement', key, consumer: guard.consumer, published: false },
      error: expect.stringContaining('came after the handler had returned'),
    })
    // A replay never repeats what is committed, and a copy does not run.
    expect(await letters.replay({ consumer: guard.consumer })).toEqual({
      done: [],
      untouched: [{ id: eventId, why: 'done' }],
    })
    expect(await guard.process(order({}, key))).toMatchObject({ kind: 'ack', by: 'duplicate' })
    expect(await client.count(key)).toBe(0)
    expect(await letters.rerun(eventId, 'await was missing')).toEqual({
      done: [eventId],
      untouched: [],
    })
    await until(async () => (await client.count(key)) === 1, { deadlineMs: 20_000 })
    expect(await guard.process(order({}, key))).toMatchObject({ kind: 'ack', by: 'duplicate' })
    expect([runs, await letters.show(eventId)]).toEqual([2, undefined])
    await guard.close()
  })
})
