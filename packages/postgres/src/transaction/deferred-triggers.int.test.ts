import { RetryableError } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DRIVERS, type Guards, order } from '../fixtures/guards.ts'
import { migrate } from '../operators/migrate.ts'

/** A trigger of the user that names its tables without their schema, as most do. */
const OBJECTS = `
create schema shop;
create table shop.charges (key text);
create table shop.journal (key text, who text, path text);
create function shop.note() returns trigger language plpgsql as
  $$ begin
    insert into journal values (new.key, current_user, pg_catalog.current_setting('search_path'));
    return new;
  end $$;
create constraint trigger noting after insert on shop.charges
  deferrable initially deferred for each row execute function shop.note();
create table shop.rules (key text, rule text);
create function shop.check_rule() returns trigger language plpgsql as
  $$ begin
    execute new.rule;
    return new;
  end $$;
create constraint trigger checking after insert on shop.rules
  deferrable initially deferred for each row execute function shop.check_rule()`

const CLERK = `
grant usage on schema shop to deferring_clerk;
grant insert on all tables in schema shop to deferring_clerk`

const AS_CLERK = ['set local search_path = shop', 'set local role deferring_clerk']

/** What makes onceward send statements of its own with COMMIT. */
const CASES = [
  { what: 'nothing to store', fails: false, result: undefined },
  { what: 'a result', fails: false, result: 'charged' },
  { what: 'an event that failed before', fails: true, result: undefined },
  { what: 'both', fails: true, result: 'charged' },
]

describe.each(DRIVERS)('a deferred trigger over $name', ({ connect }) => {
  let guards: Guards

  beforeAll(async () => {
    guards = await connect({ url: (await database()).url })
    if (guards.pool !== undefined) await migrate(guards.pool)
    await guards.admin(OBJECTS)
    await guards.admin('create role deferring_clerk').catch(() => undefined)
    await guards.admin(CLERK)
  })
  afterAll(() => guards.close())

  // Red when the statements of onceward that travel with COMMIT come before the triggers: these then run under the
  // search path and the role of onceward, find no table, and the event can never be committed.
  it.each(CASES)(
    'runs under the role and the search path of the handler, with $what',
    async ({ fails, result }) => {
      const guard = guards.make(async ({ key, attempt }, run) => {
        for (const setting of AS_CLERK) await run(setting)
        await run('insert into charges values ($1)', [key])
        if (fails && attempt === 1) throw new RetryableError('the first run fails')
        return result
      })
      const delivery = order()
      const key = delivery.headers['idempotency-key']
      const settled = await until(async () => {
        const settlement = await guard.process(delivery)
        return settlement.kind !== 'defer' || !fails ? settlement : false
      })
      expect(settled).toMatchObject({ kind: 'ack', by: 'processed' })
      const noted = await guards.admin('select who, path from shop.journal where key = $1', [key])
      expect(noted).toEqual([{ who: 'deferring_clerk', path: 'shop' }])
      await guard.close()
    },
  )

  // Red before over Kysely: COMMIT was sent again behind the transaction, which its error had ended, and the event was acked.
  it.each(['selec', 'select 1 / 0'])('fails the event whose rule is %j', async (rule) => {
    const guard = guards.make(async ({ key, payload }, run) => {
      await run('insert into shop.rules values ($1, $2)', [key, payload['rule']])
    })
    const [wrong, right] = [order({ rule }), order({ rule: 'select 1' })]
    expect(await guard.process(wrong)).toMatchObject({ kind: 'defer', reason: 'failed' })
    expect(await guard.process(right)).toMatchObject({ kind: 'ack', by: 'processed' })
    const keys = [wrong, right].map(({ headers }) => headers['idempotency-key'])
    const rows = await guards.admin('select key from shop.rules where key = any ($1)', [keys])
    expect(rows).toEqual([{ key: keys[1] }])
    await guard.close()
  })
})
