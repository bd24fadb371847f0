import { randomUUID } from 'node:crypto'
import { createGuard, type Guard, type GuardEvent, type Settlement } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { database } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import knexOf from 'knex'
import pg from 'pg'
import Cursor from 'pg-cursor'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

interface Order {
  readonly key: string
}
type Handler = (tx: pg.PoolClient, key: string, knex: ReturnType<typeof knexOf>) => Promise<unknown>

const effects = pgTable('effects', { key: text().primaryKey() })
const insert = (tx: pg.PoolClient, key: string): Promise<unknown> =>
  tx.query('insert into effects values ($1)', [key])
const broken = (tx: pg.PoolClient): Promise<unknown> => tx.query('select 1 / 0')

/** Handlers that are committed, and the ends of the keys that they have written. */
const COMMITTED: Readonly<Record<string, readonly [handler: Handler, written: string]>> = {
  'one is committed': [
    async (tx, key) => {
      await tx.query('BEGIN')
      await insert(tx, `${key} a`)
      await tx.query('COMMIT')
    },
    'a',
  ],
  'one is rolled back': [
    async (tx, key) => {
      await insert(tx, `${key} a`)
      await tx.query('start transaction')
      await insert(tx, `${key} b`)
      expect(await tx.query('rollback')).toMatchObject({ command: 'ROLLBACK' })
      await insert(tx, `${key} c`)
    },
    'a c',
  ],
  'they are nested twice, and the inner one is rolled back': [
    async (tx, key) => {
      await tx.query('begin')
      await insert(tx, `${key} a`)
      await tx.query('begin')
      await insert(tx, `${key} b`)
      await tx.query('abort')
      await insert(tx, `${key} c`)
      await tx.query('end')
    },
    'a c',
  ],
  'they are nested twice, and the outer one is rolled back': [
    async (tx, key) => {
      await insert(tx, `${key} a`)
      await tx.query('begin')
      await tx.query('begin')
      await insert(tx, `${key} b`)
      await tx.query('commit')
      await tx.query('rollback')
    },
    'a',
  ],
  'an error inside is caught': [
    async (tx, key) => {
      await insert(tx, `${key} a`)
      await tx.query('begin')
      await insert(tx, `${key} b`)
      await broken(tx).catch(() => tx.query('rollback'))
      await insert(tx, `${key} c`)
    },
    'a c',
  ],
  'the commit comes with other statements in one text': [
    async (tx, key) => {
      await tx.query('begin; select 1')
      await insert(tx, `${key} a`)
      await tx.query("select 'commit'; commit; select 2")
      await insert(tx, `${key} b`)
    },
    'a b',
  ],
  'a text of several statements fails': [
    async (tx, key) => {
      await tx.query('begin; select 1 / 0; commit').catch(() => tx.query('rollback'))
      await insert(tx, `${key} a`)
    },
    'a',
  ],
  'a cursor is read inside': [
    async (tx, key) => {
      await tx.query('begin')
      const cursor = tx.query(new Cursor('select generate_series(1, 3)::text as n'))
      for (const { n } of await cursor.read(2)) await Promise.resolve(n)
      await cursor.close()
      await insert(tx, `${key} a`)
      await tx.query('commit')
    },
    'a',
  ],
  'callbacks are used': [
    async (tx, key) => {
      const sent = (statement: string): Promise<unknown> =>
        new Promise((resolve, reject) => {
          tx.query(statement, (error, answer) => (error ? reject(error) : resolve(answer)))
        })
      await sent('begin')
      await insert(tx, `${key} a`)
      await sent('rollback')
      await sent('begin')
      await insert(tx, `${key} b`)
      await sent('commit')
    },
    'b',
  ],
  'statements are not awaited one by one': [
    async (tx, key) => {
      await Promise.all([
        tx.query('begin'),
        insert(tx, `${key} a`),
        tx.query('commit'),
        insert(tx, `${key} b`),
      ])
    },
    'a b',
  ],
  'one is read only': [
    async (tx, key) => {
      await tx.query('begin read only')
      await insert(tx, `${key} a`).catch(() => tx.query('rollback'))
      await tx.query('begin transaction read only, not deferrable')
      await tx.query('commit')
      await insert(tx, `${key} b`)
    },
    'b',
  ],
  'Drizzle begins them': [
    async (tx, key) => {
      const db = drizzle(tx)
      await db.transaction(async (outer) => {
        await outer.insert(effects).values({ key: `${key} a` })
        await outer
          .transaction(async (inner) => {
            await inner.insert(effects).values({ key: `${key} b` })
            await inner.execute(sql`select 1 / 0`)
          })
          .catch(() => undefined)
        await outer.insert(effects).values({ key: `${key} c` })
      })
      await db
        .transaction(async (other) => {
          await other.insert(effects).values({ key: `${key} d` })
          other.rollback()
        })
        .catch(() => undefined)
    },
    'a c',
  ],
  'Knex begins them': [
    async (tx, key, knex) => {
      await knex.transaction(
        async (outer) => {
          await outer('effects').insert({ key: `${key} a` })
          await outer
            .transaction(async (inner) => {
              await inner('effects').insert({ key: `${key} b` })
              await inner.raw('select 1 / 0')
            })
            .catch(() => undefined)
          await outer('effects').insert({ key: `${key} c` })
        },
        { connection: tx },
      )
      const other = knex.transaction(
        async (own) => {
          await own('effects').insert({ key: `${key} d` })
          throw new Error('declined')
        },
        { connection: tx },
      )
      await other.catch(() => undefined)
    },
    'a c',
  ],
}

/** Handlers whose run fails, and why. */
const FAILED: Readonly<Record<string, readonly [handler: Handler, why: string]>> = {
  'it returns inside of one': [
    async (tx, key) => {
      await insert(tx, `${key} a`)
      await tx.query('begin')
    },
    'returned inside of a transaction that it had begun itself',
  ],
  'it commits one more than it began': [
    async (tx) => {
      await tx.query('begin; commit')
      await tx.query('commit')
    },
    'may not send `commit`',
  ],
  'Drizzle asks for an isolation level': [
    async (tx) => {
      const chosen = drizzle(tx).transaction(async () => undefined, {
        isolationLevel: 'serializable',
      })
      await chosen.catch((error: unknown) => {
        throw (error as Error).cause
      })
    },
    'set the option `isolation` of the inbox',
  ],
  'it begins two at a time': [
    async (tx, key) => {
      const transfer = async (to: string): Promise<void> => {
        await drizzle(tx).transaction(async (own) => {
          await own.insert(effects).values({ key: `${key} ${to}` })
        })
      }
      await Promise.all(['a', 'b'].map(transfer)).catch((error: unknown) => {
        throw (error as Error).cause
      })
    },
    'run nested transactions one after the other',
  ],
}

describe.each(['each', 'batch'] as const)('transactions of a handler on a client: %s', (mode) => {
  let pool: pg.Pool
  let knex: ReturnType<typeof knexOf>
  beforeAll(async () => {
    pool = new pg.Pool({ connectionString: (await database()).url, max: 6 })
    await migrate(pool)
    await pool.query('create table effects (key text primary key)')
    knex = knexOf({ client: 'pg' })
  })
  afterAll(async () => {
    await knex.destroy()
    await pool.end()
  })

  function guardOf(handlers: ReadonlyMap<string, Handler>): Guard {
    return createGuard(
      {
        consumer: randomUUID(),
        inbox: pgInbox(pool),
        transaction: mode,
        retry: { attempts: 1 },
        logger: silent,
      },
      async ({ payload: { key } }: GuardEvent<Order>, { tx }) => {
        await handlers.get(key)?.(tx, key, knex)
      },
    )
  }

  /** Delivers them together, so that they share a transaction where the mode lets them. */
  async function settle(handlers: readonly Handler[]) {
    const byKey = new Map(handlers.map((handler) => [randomUUID(), handler]))
    const guard = guardOf(byKey)
    const deliveries = [...byKey.keys()].map((key) =>
      toDelivery({ key }, { headers: { 'idempotency-key': key } }),
    )
    const settlements = await guard.processBatch(deliveries)
    await guard.close()
    const written = async (key: string): Promise<string> => {
      const { rows } = await pool.query('select key from effects where key like $1 order by key', [
        `${key}%`,
      ])
      return rows.map((row) => row.key.split(' ')[1]).join(' ')
    }
    return Promise.all(
      [...byKey.keys()].map(async (key, at) => ({
        settlement: settlements[at] as Settlement,
        written: await written(key),
      })),
    )
  }

  const plain: Handler = (tx, key) => insert(tx, `${key} z`)

  it.each(Object.entries(COMMITTED))('are savepoints: %s', async (_name, [handler, written]) => {
    const ends = await settle([plain, handler, plain])
    expect(ends).toMatchObject([
      { settlement: { kind: 'ack' }, written: 'z' },
      { settlement: { kind: 'ack', by: 'processed' }, written },
      { settlement: { kind: 'ack' }, written: 'z' },
    ])
  })

  // Red when a member of a batch may end what another member has left open: its own effect or the other's would be lost.
  it.each(Object.entries(FAILED))('fail the run if %s', async (_name, [handler, why]) => {
    const ends = await settle([plain, handler, plain])
    expect(ends).toMatchObject([
      { settlement: { kind: 'ack' }, written: 'z' },
      {
        settlement: { kind: 'dead-letter', error: { message: expect.stringContaining(why) } },
        written: '',
      },
      { settlement: { kind: 'ack' }, written: 'z' },
    ])
  })
})
