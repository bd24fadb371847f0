import { FatalError } from '@onceward/core'
import { database } from '@onceward/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DRIVERS, type Guards, order } from './fixtures/guards.ts'
import { all } from './fixtures/inbox.ts'
import { type DeadLetters, deadLetters } from './operators/dead-letters.ts'
import { migrate } from './operators/migrate.ts'

// Other code of the pool returns connections inside of a transaction: an early return between BEGIN and COMMIT is enough,
// and neither pg nor its pool notices. Red when a record of onceward joins that transaction: the delivery was settled,
// and the record was lost when the transaction ended.

/** How the other code leaves its connection. */
const LEFT: Readonly<Record<string, readonly string[]>> = {
  'an open transaction': ['begin', 'select 1'],
  'an open transaction under REPEATABLE READ': [
    'begin isolation level repeatable read',
    'select 1',
  ],
  'an open transaction that is read-only': ['begin read only', 'select 1'],
  'a failed transaction': ['begin', 'select 1/0'],
}

const onPg = DRIVERS.filter(({ name }) => name !== 'pglite')

/** Its clients cannot tell whether they are inside of a transaction. */
const beforePg823 = onPg.flatMap(({ name, connect }) => {
  if (name !== 'pg') return []
  const connectOld: typeof connect = async (place) => {
    const guards = await connect(place)
    const pool = guards.pool as pg.Pool
    pool.on('connect', (client) => Object.assign(client, { getTransactionStatus: undefined }))
    return guards
  }
  return [{ name: 'pg below 8.23', connect: connectOld }]
})

describe.each([...onPg, ...beforePg823])(
  'a pool over $name whose connections come back with',
  ({ connect }) => {
    let guards: Guards
    /** Over connections of its own, so it reads what is committed. */
    let letters: DeadLetters
    let own: pg.Pool

    beforeAll(async () => {
      const { url } = await database()
      guards = await connect({ url })
      await migrate(poolOf())
      own = new pg.Pool({ connectionString: url })
      letters = deadLetters(own)
      await guards.admin('create table effects (key text)')
    })
    afterAll(() => Promise.all([guards.close(), own.end()]))

    const poolOf = (): pg.Pool => guards.pool as pg.Pool

    async function leave(texts: readonly string[], pool = poolOf()): Promise<void> {
      const clients = await Promise.all(
        Array.from({ length: pool.options.max }, () => pool.connect()),
      )
      for (const client of clients) {
        for (const text of texts) await client.query(text).catch(() => undefined)
      }
      for (const client of clients) client.release()
    }

    it.each(Object.entries(LEFT))('%s keep their dead letters', async (_left, texts) => {
      const guard = guards.make(() => Promise.reject(new FatalError('poison')))
      await guard.process(order())
      const unreadable = { ...order(), body: Buffer.from('{') }
      for (const dead of [unreadable, order()]) {
        await leave(texts)
        expect(await guard.process(dead)).toMatchObject({ kind: 'dead-letter' })
      }
      expect(await all(letters.list({ consumer: guard.consumer }))).toHaveLength(3)
      await guard.close()
    })

    // Red when the COMMIT of an operator also commits what the other code has begun and not ended.
    it('an open transaction do not commit it with the change of an operator', async () => {
      const guard = guards.make(() => Promise.reject(new FatalError('poison')))
      await guard.process(order())
      await guard.close()
      await leave(['begin', "insert into effects values ('half')"])
      const report = await deadLetters(poolOf()).discard({ consumer: guard.consumer }, 'test')
      expect(report).toMatchObject({ done: [expect.any(String)], untouched: [] })
      await leave(['rollback'])
      expect(await guards.admin("select from effects where key = 'half'")).toEqual([])
    })

    // Red when only what onceward has heard on a connection is known of it: Kysely does not tell.
    it('an open transaction before onceward first uses them do not commit it with an event', async () => {
      const fresh = await connect({ url: own.options.connectionString as string })
      await leave(['begin', "insert into effects values ('unfinished')"], fresh.pool as pg.Pool)
      const guard = fresh.make(async ({ key }, run) => {
        await run('insert into effects values ($1)', [key])
      })
      expect(await guard.process(order())).toMatchObject({ kind: 'ack', by: 'processed' })
      await guard.close()
      await fresh.close()
      expect(await guards.admin("select from effects where key = 'unfinished'")).toEqual([])
    })

    it.each(Object.entries(LEFT))('%s process events', async (_left, texts) => {
      const guard = guards.make(async ({ key }, run) => {
        await run('insert into effects values ($1)', [key])
        return undefined
      })
      await guard.process(order())
      await leave(texts)
      const some = [order(), order(), order()]
      for (const copies of [some, some.map((each) => ({ ...each, redelivered: true }))]) {
        const settlements = await guard.processBatch(copies)
        expect(settlements.map(({ kind }) => kind)).toEqual(['ack', 'ack', 'ack'])
        await leave(texts)
      }
      for (const { headers } of some) {
        const key = headers['idempotency-key']
        const [row] = await guards.admin('select count(*)::int as n from effects where key = $1', [
          key,
        ])
        expect(row).toEqual({ n: 1 })
      }
      await guard.close()
    })
  },
)
