import { PGlite } from '@electric-sql/pglite'
import { createGuard, type Inbox } from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { type CollectedMessage, toCollected } from '@onceward/core/ports'
import { database } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { CompiledQuery, Kysely, PGliteDialect, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, test } from 'vitest'
import { type Run, runOnKysely, runOnPg } from '../fixtures/clients.ts'
import { poolOf } from '../fixtures/guards.ts'
import { ORMS } from '../fixtures/orms/index.ts'
import { kyselyInbox } from '../kysely.ts'
import { migrate } from '../operators/migrate.ts'
import { pgInbox } from '../pg.ts'
import { flushTexts } from '../transaction/outbox-sql.ts'
import { sendWith } from './send-with.ts'

let url: string
let pool: pg.Pool

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url, max: 20 })
  await migrate(pool)
  await pool.query('create table orders (id text)')
})
afterAll(() => pool.end())

interface Connected {
  readonly inbox: Inbox<unknown>
  readonly runOn: (tx: unknown) => Run
  /** Outside of any transaction. */
  readonly root: Run
  readonly close: () => Promise<void>
}

const rootOf =
  (queryable: { query: (text: string) => Promise<unknown> }): Run =>
  async (text) =>
    ((await queryable.query(text)) as { rows: readonly Record<string, unknown>[] }).rows

const CONNECT: readonly (readonly [string, () => Promise<Connected>])[] = [
  [
    'pg',
    async () => ({
      inbox: pgInbox(pool) as Inbox<unknown>,
      runOn: (tx) => runOnPg(tx as pg.PoolClient),
      root: rootOf(pool),
      close: () => Promise.resolve(),
    }),
  ],
  [
    'Kysely',
    async () => {
      const own = new pg.Pool({ connectionString: url })
      const db = new Kysely<never>({ dialect: new PostgresDialect({ pool: own }) })
      return {
        inbox: kyselyInbox(db) as Inbox<unknown>,
        runOn: (tx) => runOnKysely(tx as Transaction<never>),
        root: rootOf(pool),
        close: () => db.destroy(),
      }
    },
  ],
  [
    'Kysely on PGlite',
    async () => {
      const pglite = await PGlite.create()
      await migrate(poolOf(pglite))
      await pglite.exec('create table orders (id text)')
      const db = new Kysely<never>({ dialect: new PGliteDialect({ pglite }) })
      return {
        inbox: kyselyInbox(db) as Inbox<unknown>,
        runOn: (tx) => runOnKysely(tx as Transaction<never>),
        root: rootOf(pglite),
        close: () => db.destroy(),
      }
    },
  ],
  ...ORMS.map(({ connect, name }) => {
    const connected = async (): Promise<Connected> => {
      const orm = await connect(url, 10)
      return {
        inbox: orm.inbox({ pool }),
        runOn: (tx) => orm.runOn(tx),
        root: rootOf(pool),
        close: () => orm.close(),
      }
    }
    return [name, connected] as const
  }),
]

const SENT = `select destination, convert_from(key, 'utf8') as key, convert_from(payload, 'utf8') as payload,
  regexp_replace(convert_from(envelope, 'utf8'), ',"event":"[0-9a-f-]{36}"', '') as envelope, state::text, due_at > now() + interval '50 s' as is_late
  from onceward.outbox_messages order by position`

describe.each(CONNECT)('the outbox over %s', (name, connect) => {
  const consumer = name.replaceAll(/[^\w.-]+/g, '-')
  let connected: Connected
  beforeAll(async () => {
    connected = await connect()
    await connected.root('delete from onceward.outbox_messages')
  })
  afterAll(() => connected.close())

  it('commits messages with the rows of the handler, and none of a run that fails', async () => {
    const guard = createGuard(
      { consumer: `sends-${consumer}`, inbox: connected.inbox, logger: silent },
      async ({ key }, { outbox, tx }) => {
        await connected.runOn(tx)(`insert into orders values ('${key}')`)
        outbox.send({ to: 'payments', key: "o'1 ü\\", payload: { text: "it's 😀" } })
        outbox.send({ to: 'mails', payload: 2, headers: { a: 'ü' }, type: 'mail', delayMs: 60_000 })
        if (key === 'bad') throw new Error('no')
        return { stored: key }
      },
    )
    for (const key of ['bad', 'good', 'good']) {
      await guard.process(toDelivery({}, { headers: { 'idempotency-key': key } }))
    }
    const source = `sends-${consumer}`
    const plain = { type: 'payments', headers: {}, isJson: true }
    expect(await connected.root(SENT)).toEqual([
      {
        ...{ destination: 'payments', key: "o'1 ü\\", payload: `{"text":"it's 😀"}` },
        ...{ envelope: JSON.stringify({ source, ...plain }), state: 'q', is_late: null },
      },
      {
        ...{ destination: 'mails', key: null, payload: '2' },
        envelope: JSON.stringify({ source, type: 'mail', headers: { a: 'ü' }, isJson: true }),
        ...{ state: 'd', is_late: true },
      },
    ])
    await connected.root('delete from onceward.outbox_messages')
    await guard.close()
  })

  // Red before: it was sent.
  it('sends nothing of a savepoint that is rolled back', async () => {
    const guard = createGuard(
      { consumer: `savepoints-${consumer}`, inbox: connected.inbox, logger: silent },
      async (_event, { outbox, tx }) => {
        const run = connected.runOn(tx)
        outbox.send({ to: 'a', payload: 1 })
        await run('savepoint a')
        outbox.send({ to: 'a', payload: 2 })
        await run('savepoint b')
        outbox.send({ to: 'a', payload: 3 })
        await run('release b')
        await run('rollback to a')
        outbox.send({ to: 'a', payload: 4 })
        await run('release a')
      },
    )
    const { kind } = await guard.process(toDelivery({}, { headers: { 'idempotency-key': 's' } }))
    expect(kind).toBe('ack')
    const payloads =
      "select convert_from(payload, 'utf8') as p from onceward.outbox_messages order by position"
    expect(await connected.root(payloads)).toEqual([{ p: '1' }, { p: '4' }])
    await connected.root('delete from onceward.outbox_messages')
    await guard.close()
  })

  // Over the handle of a guard, because it is the handle of the library.
  it('takes messages of sendWith on the handle of a transaction', async () => {
    const guard = createGuard(
      { consumer: `with-${consumer}`, inbox: connected.inbox, logger: silent },
      async (_event, { tx }) => {
        // Red before: Knex read the question marks as parameters, and wrote $1 in their place.
        const message = { to: 'a?b', id: String.raw`?i\?`, type: 't?', key: 'k?', payload: '?' }
        await sendWith(tx as object, [message], { source: 'cron?' })
        await sendWith(tx as object, [])
      },
    )
    const { kind } = await guard.process(toDelivery({}, { headers: { 'idempotency-key': 'e' } }))
    expect(kind).toBe('ack')
    expect(await connected.root(SENT)).toMatchObject([
      {
        ...{ destination: 'a?b', key: 'k?', payload: '"?"' },
        envelope: expect.stringContaining('"source":"cron?","type":"t?"'),
      },
    ])
    expect(await connected.root('select message_id as id from onceward.outbox_messages')).toEqual([
      { id: String.raw`?i\?` },
    ])
    await connected.root('delete from onceward.outbox_messages')
    await guard.close()
  })
})

// Red before: it was sent.
test('nothing is sent of a transaction that a handler begins on its client and rolls back', async () => {
  const guard = createGuard(
    { consumer: 'begins', inbox: pgInbox(pool), logger: silent },
    async (_event, { outbox, tx }) => {
      for (const [payload, end] of [
        [1, 'commit'],
        [2, 'rollback'],
      ] as const) {
        await tx.query('begin')
        outbox.send({ to: 'a', payload })
        await tx.query(end)
      }
    },
  )
  await guard.process(toDelivery({}, { headers: { 'idempotency-key': 'begins' } }))
  expect((await pool.query(SENT)).rows).toMatchObject([{ payload: '1' }])
  await pool.query('delete from onceward.outbox_messages')
  await guard.close()
})

describe('sendWith', () => {
  const message = { to: 'a', key: 'k', payload: 1 }

  it.each([
    ['a pool', () => pool as object],
    ['a client outside of a transaction', async () => pool.connect()],
    [
      'a Kysely instance',
      () => new Kysely<never>({ dialect: new PostgresDialect({ pool }) }) as object,
    ],
  ])('refuses %s, and sends nothing', async (_what, handle) => {
    const tx = await handle()
    await expect(sendWith(tx, [message])).rejects.toMatchObject({ code: 'ONCEWARD_OUTBOX' })
    if (tx instanceof pg.Client) (tx as pg.PoolClient).release()
    expect((await pool.query(SENT)).rows).toEqual([])
  })

  it('refuses what is no handle, and what is no message', async () => {
    const refused = expect.objectContaining({ code: 'ONCEWARD_CONFIGURATION' })
    await expect(sendWith({}, [message])).rejects.toEqual(refused)
    const wrong = expect.objectContaining({ code: 'ONCEWARD_OUTBOX' })
    await expect(sendWith(pool, [{ to: '', payload: 1 }])).rejects.toEqual(wrong)
  })

  // Red before: the server's error about a relation.
  it('says what to do where the tables are older than the outbox', async () => {
    await pool.query('create schema older')
    const client = await pool.connect()
    onTestFinished(() => client.release(true))
    await client.query('begin')
    await expect(sendWith(client, [message], { schema: 'older' })).rejects.toMatchObject({
      code: 'ONCEWARD_CONFIGURATION',
      message: expect.stringMatching(/missing in schema "older".*`await migrate\(pool\)`, first/),
    })
  })

  it('sends with the commit of Kysely, and nothing with a rollback', async () => {
    const db = new Kysely<never>({ dialect: new PostgresDialect({ pool }) })
    const failing = db.transaction().execute(async (tx) => {
      await sendWith(tx, [message])
      await tx.executeQuery(CompiledQuery.raw('select 1 / 0'))
    })
    await expect(failing).rejects.toThrow('division')
    expect((await pool.query(SENT)).rows).toEqual([])
    await db.transaction().execute((tx) => sendWith(tx, [message]))
    expect((await pool.query(SENT)).rows).toHaveLength(1)
    await pool.query('delete from onceward.outbox_messages')
  })
})

const WRITERS = 16
const TRANSACTIONS = 40
const KEYS = 6

const newMessage = (key: string): CollectedMessage =>
  toCollected(
    { to: 'payments', key, payload: key },
    { source: 'billing', newId: () => `${key}-${Math.random()}` },
  )

async function write(at: number): Promise<void> {
  const client = await pool.connect()
  for (let n = 0; n < TRANSACTIONS; n += 1) {
    const first = (at + n * 5) % KEYS
    // Each writer begins with another key, so writers that lock as they send deadlock.
    const messages = Array.from({ length: 1 + ((at + n) % 4) }, (_, each) =>
      newMessage(`key-${(first + each) % KEYS}`),
    )
    await client.query('begin')
    for (const text of flushTexts('"onceward"', messages)) await client.query(text)
    await client.query('commit')
  }
  client.release()
}

// Red without the locks, and if the position is drawn before them.
test('what a reader takes of a key comes in the order of its positions, with 16 writers', async () => {
  let isWriting = true
  const writing = Promise.all(Array.from({ length: WRITERS }, (_, at) => write(at))).finally(() => {
    isWriting = false
  })
  const last = new Map<string, bigint>()
  const late: string[] = []
  let taken = 0
  for (let isLast = false; !isLast; ) {
    isLast = !isWriting
    const { rows } = await pool.query(
      `with taken as (delete from onceward.outbox_messages returning position, convert_from(key, 'utf8') as key)
       select position::text, key from taken order by taken.position`,
    )
    taken += rows.length
    for (const { key, position } of rows) {
      if (BigInt(position) < (last.get(key) ?? 0n)) late.push(`${key} ${position}`)
      last.set(key, BigInt(position))
    }
  }
  await writing
  expect(late).toEqual([])
  expect(taken).toBe(WRITERS * TRANSACTIONS * 2.5)
}, 30_000)
