import { ConfigurationError, DeadlineExceededError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { database, until } from '@onceward/testing'
import { fresh, newEvent, registration } from '@onceward/testing/conformance'
import {
  CamelCasePlugin,
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type Generated,
  Kysely,
  type KyselyPlugin,
  PostgresDialect,
  sql,
  Transaction,
} from 'kysely'
import pg from 'pg'
import Cursor from 'pg-cursor'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { NOTHING } from './fixtures/clients.ts'
import { newEvents } from './fixtures/inbox.ts'
import { type KyselyInboxOptions, kyselyInbox } from './kysely.ts'
import { migrate } from './operators/migrate.ts'

interface Database {
  customerCharges: { chargeId: Generated<number>; orderId: string; amountCents: number }
}

let pool: pg.Pool
let db: Kysely<Database>

beforeAll(async () => {
  pool = new pg.Pool({ connectionString: (await database()).url, max: 8 })
  pool.on('error', () => undefined)
  await migrate(pool)
  await pool.query(
    'create table customer_charges (charge_id int generated always as identity, order_id uuid, amount_cents int)',
  )
  db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool, cursor: Cursor }),
    plugins: [new CamelCasePlugin()],
  })
})
afterAll(() => pool.end())

async function begin(options: KyselyInboxOptions = {}, ...events: ReturnType<typeof newEvents>) {
  const session = await kyselyInbox(db, { poolSize: 8, ...options }).open(
    registration(systemRuntime, { concurrency: 2 }),
  )
  const answer = await session.begin(fresh(...(events.length > 0 ? events : [newEvent()])))
  if (answer.kind !== 'open') throw new Error(answer.kind)
  const { transaction } = answer
  return { session, transaction, tx: transaction.tx }
}

describe("the user's Transaction", () => {
  it('is a Transaction of Kysely with the plugins of the user', async () => {
    const events = newEvents(2)
    const { session, transaction, tx } = await begin({}, ...events)
    expect(tx).toBeInstanceOf(Transaction)
    expect(tx.isTransaction).toBe(true)
    const [event] = events
    await tx.insertInto('customerCharges').values({ orderId: event!.id, amountCents: 5 }).execute()
    const read = tx.selectFrom('customerCharges').selectAll().where('orderId', '=', event!.id)
    expect(await read.executeTakeFirst()).toMatchObject({ orderId: event!.id, amountCents: 5 })
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    expect(await session.classify(events)).toMatchObject([{ kind: 'done' }, { kind: 'done' }])
    expect(await db.selectFrom('customerCharges').select('amountCents').execute()).toContainEqual({
      amountCents: 5,
    })
  })

  it('supports raw SQL, streams, schemas, more plugins and aborted queries', async () => {
    const { transaction, tx } = await begin()
    expect((await sql`select 1 as some_name`.execute(tx)).rows).toEqual([{ someName: 1 }])
    const numbers: unknown[] = []
    const stream = tx
      .selectFrom(sql<{ n: number }>`generate_series(1, 3)`.as('n'))
      .selectAll()
      .stream()
    for await (const row of stream) numbers.push(row)
    expect(numbers).toHaveLength(3)
    await tx.withSchema('public').selectFrom('customerCharges').selectAll().execute()
    expect((await sql`select 1 as some_name`.execute(tx.withoutPlugins())).rows).toEqual([
      { some_name: 1 },
    ])
    const controller = new AbortController()
    const slow = tx.executeQuery(CompiledQuery.raw('select pg_sleep(60)'), {
      signal: controller.signal,
      inflightQueryAbortStrategy: 'cancel query',
    })
    setImmediate(() => controller.abort(new Error('enough')))
    await expect(slow).rejects.toThrow('enough')
    await transaction.rollback()
    await until(() => pool.idleCount === pool.totalCount)
  })

  it('cannot end the transaction, and neither can a handle derived from it', async () => {
    const { transaction, tx } = await begin()
    expect('commit' in tx).toBe(false)
    expect(() => tx.transaction()).toThrow()
    const derived = tx.withPlugin(new CamelCasePlugin())
    await expect(sql`commit`.execute(derived)).rejects.toThrow(/savepoint/)
    await expect(derived.executeQuery(CompiledQuery.raw('rollback'))).rejects.toThrow(/savepoint/)
    expect(transaction.status()).toBe('open')
    await transaction.rollback()
  })

  it('and all handles derived from it are refused once it is revoked', async () => {
    const { transaction, tx } = await begin()
    const derived = tx.withSchema('public').withoutPlugins()
    const error = new DeadlineExceededError('too late')
    transaction.revoke(error)
    await expect(sql`select 1`.execute(derived)).rejects.toBe(error)
    await expect(tx.selectFrom('customerCharges').selectAll().execute()).rejects.toBe(error)
    await transaction.rollback()
    await until(() => pool.idleCount === pool.totalCount)
  })

  it('runs concurrent statements one after the other', async () => {
    const { transaction, tx } = await begin()
    const answers = await Promise.all([1, 2, 3].map((n) => sql`select ${n}::int as n`.execute(tx)))
    expect(answers.map(({ rows }) => rows[0])).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    await transaction.rollback()
  })
})

describe('the pool of Kysely', () => {
  it('is shared by all instances derived from one Kysely', async () => {
    const noPlugin: KyselyPlugin = {
      transformQuery: ({ node }) => node,
      transformResult: ({ result }) => Promise.resolve(result),
    }
    const open = (kysely: Kysely<Database>) =>
      kyselyInbox(kysely, { poolSize: 4 }).open(registration(systemRuntime, { concurrency: 2 }))
    const own = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
    const sessions = [await open(own), await open(own.withPlugin(noPlugin))]
    const begun = await Promise.all(sessions.map((session) => session.begin(fresh(newEvent()))))
    const third = sessions[0]!.begin({ ...fresh(newEvent()), budgetMs: 50 })
    await expect(third).rejects.toMatchObject({ code: 'ONCEWARD_STORE_UNAVAILABLE' })
    for (const answer of begun) if (answer.kind === 'open') await answer.transaction.rollback()
  })

  it('must be large enough for the concurrency, if its size is given', async () => {
    const open = kyselyInbox(db, { poolSize: 8 }).open(
      registration(systemRuntime, { concurrency: 7, concurrencyChosen: true }),
    )
    await expect(open).rejects.toBeInstanceOf(ConfigurationError)
    expect(() => kyselyInbox(db, { poolSize: 0 })).toThrow(ConfigurationError)
  })

  it('may have an unknown size', async () => {
    const unknown = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
    const session = await kyselyInbox(unknown).open(
      registration(systemRuntime, { concurrency: 50 }),
    )
    expect(session.concurrency).toBe(50)
  })
})

type Execute = DatabaseConnection['executeQuery']

/** Hides pg behind a connection that is not Kysely's own, as another client's dialect would be. */
function otherDialect(change: (execute: Execute) => Execute): Dialect {
  const dialect = new PostgresDialect({ pool })
  const createDriver = (): Driver => {
    const driver = dialect.createDriver()
    const inner = new WeakMap<DatabaseConnection, DatabaseConnection>()
    return Object.assign(Object.create(driver) as Driver, {
      init: () => driver.init(),
      acquireConnection: async () => {
        const connection = await driver.acquireConnection()
        const outer: DatabaseConnection = {
          executeQuery: change(connection.executeQuery.bind(connection)),
          streamQuery: connection.streamQuery.bind(connection),
        }
        inner.set(outer, connection)
        return outer
      },
      releaseConnection: (outer: DatabaseConnection) => driver.releaseConnection(inner.get(outer)!),
    })
  }
  return Object.assign(Object.create(dialect) as Dialect, {
    createDriver,
    createAdapter: () => dialect.createAdapter(),
  })
}

const oneAtATime =
  (execute: Execute): Execute =>
  async (query) => {
    if (query.sql.includes(';')) {
      const message = 'cannot insert multiple commands into a prepared statement'
      throw Object.assign(new Error(message), { code: '42601' })
    }
    const { rows, ...rest } = await execute<never>(query)
    return { ...rest, rows: query.sql === 'commit' ? [] : rows }
  }

const swallowing =
  (execute: Execute): Execute =>
  (query) =>
    execute<never>(query).catch(() => ({ rows: [] }))

describe('a client that swallows errors', () => {
  it('does not commit a failed transaction, because the answer to COMMIT is checked', async () => {
    const db = new Kysely<Database>({ dialect: otherDialect(swallowing) })
    const session = await kyselyInbox(db).open(registration(systemRuntime))
    const begun = await session.begin(fresh(newEvent()))
    if (begun.kind !== 'open') throw new Error(begun.kind)
    await sql`select 1 / 0`.execute(begun.transaction.tx)
    expect(begun.transaction.status()).toBe('open')
    expect(await begun.transaction.commit(NOTHING)).toMatchObject({ kind: 'rolled-back' })
  })
})

describe('a client that takes one statement at a time and gives no access to the wire', () => {
  it('can claim, fail, commit and return its connection', async () => {
    const other = new Kysely<Database>({ dialect: otherDialect(oneAtATime) })
    const session = await kyselyInbox(other).open(registration(systemRuntime))
    const events = newEvents(2)
    const begun = await session.begin(fresh(...events))
    if (begun.kind !== 'open') throw new Error(begun.kind)
    const results = new Map([[events[0]!.id, '1']])
    expect(await begun.transaction.commit({ results, recovered: [events[0]!.id] })).toEqual({
      kind: 'committed',
    })
    expect(await session.begin(fresh(events[0]!))).toMatchObject({ kind: 'none' })

    const failed = await session.begin(fresh(newEvent()))
    if (failed.kind !== 'open') throw new Error(failed.kind)
    await sql`select 1 / 0`.execute(failed.transaction.tx).catch(() => undefined)
    expect(failed.transaction.status()).toBe('failed')
    expect(await failed.transaction.commit(NOTHING)).toMatchObject({ kind: 'rolled-back' })

    const revoked = await session.begin(fresh(newEvent()))
    if (revoked.kind !== 'open') throw new Error(revoked.kind)
    const sleeping = sql`select pg_sleep(60)`
      .execute(revoked.transaction.tx)
      .catch(() => 'cancelled')
    await until(
      async () =>
        (await pool.query("select from pg_stat_activity where wait_event = 'PgSleep'")).rowCount ===
        1,
    )
    revoked.transaction.revoke(new DeadlineExceededError('too late'))
    await revoked.transaction.rollback()
    expect(await sleeping).toBe('cancelled')
    await until(() => pool.idleCount === pool.totalCount)
  })
})
