import { randomUUID } from 'node:crypto'
import { createGuard, type Delivery, FatalError, RetryableError } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { DRIVERS, type Guards, type Order, order } from './fixtures/guards.ts'
import { postgresLeases } from './lease-store.ts'
import { migrate } from './operators/migrate.ts'

// Red when an event is hurt by a role that stays on a connection of the pool and has no rights on the tables of onceward.

const STRANGER = `stranger_${randomUUID().slice(0, 8)}`

const OBJECTS = `
create role ${STRANGER};
create table effects (key text, as_role text);
create table changes (name text);
grant all on effects, changes to public;
create function leave_role() returns trigger language plpgsql as
  $$ begin perform pg_catalog.set_config('role', '${STRANGER}', false); return new; end $$;
create trigger leaving after insert on changes for each row execute function leave_role()`

const LEFT = {
  'set role': `set role ${STRANGER}`,
  'set session authorization': `set session authorization ${STRANGER}`,
}

/** Leaves it on every connection that the pool can have. */
async function leaveEverywhere(pool: pg.Pool, text: string): Promise<void> {
  const clients = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()))
  for (const client of clients) await client.query(text)
  for (const client of clients) client.release()
}

describe.each(DRIVERS.filter(({ name }) => name !== 'pglite'))('over $name', ({ connect }) => {
  let guards: Guards
  let pool: pg.Pool
  let url: string

  beforeAll(async () => {
    ;({ url } = await database())
    const made = await connect({ url })
    if (made.pool !== undefined) await migrate(made.pool)
    await made.admin(OBJECTS)
    await made.close()
  })
  afterAll(async () => {
    const { admin, close } = await connect({ url })
    await admin(`drop owned by ${STRANGER}; drop role ${STRANGER}`)
    await close()
  })
  const open = async (): Promise<void> => {
    guards = await connect({ url, max: 4 })
    pool = guards.pool as pg.Pool
  }
  beforeAll(open)
  afterEach(async () => {
    await guards.close()
    await open()
  })

  const effectsOf = async (deliveries: readonly Delivery[]) => {
    const keys = deliveries.map(({ headers }) => headers['idempotency-key'])
    const rows = await guards.admin('select * from effects where key = any($1)', [keys])
    expect(rows.map(({ as_role }) => as_role)).toEqual(rows.map(() => 'none'))
    return rows.length
  }

  const EFFECT = "insert into public.effects values ($1, pg_catalog.current_setting('role'))"

  describe.each(['each', 'batch'] as const)('transaction %s', (transaction) => {
    it.each(Object.entries(LEFT))(
      'a %s on every connection of the pool defers no event',
      async (_name, text) => {
        let isPoisoned = false
        const guard = guards.make(
          async ({ key, payload, attempt }, run) => {
            // As a handler does that uses the pool beside its transaction.
            if (payload['leaves'] === true && !isPoisoned) {
              isPoisoned = true
              await pool.query(text)
            }
            await run(EFFECT, [key])
            if (payload['fails'] === true && attempt === 1) throw new RetryableError('later')
            if (payload['dies'] === true) throw new FatalError('never')
            return key
          },
          { transaction, concurrency: 2 },
        )
        await guard.process(order())
        await leaveEverywhere(pool, text)
        const clean = [order(), order({ leaves: true }), order(), order()]
        expect((await guard.processBatch(clean)).map(({ kind }) => kind)).toEqual(
          clean.map(() => 'ack'),
        )
        expect(await effectsOf(clean)).toBe(clean.length)
        await leaveEverywhere(pool, text)
        expect((await guard.processBatch(clean)).map((each) => ({ ...each }))).toMatchObject(
          clean.map(({ headers }) => ({ by: 'duplicate', result: headers['idempotency-key'] })),
        )
        await leaveEverywhere(pool, text)
        const troubled = [order({ fails: true }), order({ dies: true })]
        const first = await guard.processBatch(troubled)
        expect(first).toMatchObject([{ kind: 'defer', reason: 'failed' }, { kind: 'dead-letter' }])
        await leaveEverywhere(pool, text)
        const again = await until(async () => {
          const settled = await guard.processBatch(troubled)
          expect(settled[0]).not.toMatchObject({ reason: 'store-down' })
          return settled[0]?.kind === 'ack' && settled
        })
        expect(again).toMatchObject([{ by: 'processed' }, { kind: 'dead-letter', reason: 'fatal' }])
        expect(await effectsOf(troubled)).toBe(1)
        await guard.close()
      },
    )

    it('a trigger that leaves a role for the session hurts no later event', async () => {
      const guard = guards.make(
        async ({ key, payload }, run) => {
          await run(EFFECT, [key])
          if (payload['leaves'] === true) await run("insert into public.changes values ('role')")
          return undefined
        },
        { transaction, concurrency: 1 },
      )
      const orders = Array.from({ length: 12 }, (_, index) => order({ leaves: index % 3 === 2 }))
      for (const each of orders)
        expect(await guard.process(each)).toMatchObject({ by: 'processed' })
      expect(await effectsOf(orders)).toBe(orders.length)
      await guard.close()
    })
  })

  it('a role on every connection of the pool keeps no lease from being claimed', async () => {
    for (const text of Object.values(LEFT)) {
      const guard = createGuard<undefined, Order>(
        {
          ...{ consumer: randomUUID(), logger: silent, onTakeover: 'retry' },
          leases: postgresLeases(pool),
        },
        () => undefined,
      )
      await guard.process(order())
      await leaveEverywhere(pool, text)
      const [one, two] = [order(), order()]
      expect(await guard.processBatch([one, two])).toMatchObject([{ kind: 'ack' }, { kind: 'ack' }])
      await leaveEverywhere(pool, text)
      expect(await guard.process(one)).toMatchObject({ by: 'duplicate' })
      await guard.close()
    }
  })

  it('an operator reads and replays dead letters whatever role is left', async () => {
    await leaveEverywhere(pool, LEFT['set role'])
    const { deadLetters } = await import('./operators/dead-letters.ts')
    const { untouched } = await deadLetters(pool).replay(randomUUID())
    expect(untouched).toHaveLength(1)
  })

  it('a role that lacks rights on every new connection is an error of the configuration', async () => {
    await guards.admin(`alter role ${STRANGER} login`)
    const address = Object.assign(new URL(url), { username: STRANGER })
    const strange = await connect({ url: address.href, max: 3 })
    const guard = strange.make(() => undefined, { concurrency: 1 })
    await expect(guard.process(order())).rejects.toThrow(/role lacks rights .* grant it the rights/)
    await guard.close()
    await strange.close()
  })
})
