import type { Delivery } from '@onceward/core'
import { database } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { expect, it } from 'vitest'
import { DRIVERS as ALL, type Guards, order } from './fixtures/guards.ts'
import { migrate } from './operators/migrate.ts'

// PGlite has one connection, so nobody inserts beside its rebuild.
const DRIVERS = ALL.filter(({ name }) => name !== 'pglite')

/**
 * From now on, the first inserts of a transaction's rows are answered as by an index that `reindex concurrently` builds
 * while another transaction inserts the same row. A sequence counts them, because it is not rolled back.
 */
const violated = (times: number): string => `
  create sequence public.violations;
  create function public.violate() returns trigger language plpgsql as $$ begin
    if nextval('public.violations') <= ${times} then
      raise exception using errcode = '23505',
        message = 'duplicate key value violates unique constraint "processed_events_pkey_ccnew"';
    end if;
    return new;
  end $$;
  create trigger violate before insert on onceward.processed_events for each row execute function public.violate()`

async function guardsOn(connect: (typeof DRIVERS)[number]['connect']): Promise<Guards> {
  const { url } = await database()
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  await migrate(pool)
  await pool.end()
  return connect({ url })
}

const suspect = (): Delivery => ({ ...order(), redelivered: true })

it.each(
  DRIVERS.flatMap(({ name, connect }) =>
    ([order, suspect] as const).map((make) => ({ name, connect, make, what: make.name })),
  ),
)('$name: $what, which a rebuilt index refuses twice, is processed', async ({ connect, make }) => {
  const guards = await guardsOn(connect)
  const errors: object[] = []
  const logger = { ...silent, error: (fields: object) => void errors.push(fields) }
  const guard = guards.make(() => undefined, { logger })
  expect(await guard.process(order())).toMatchObject({ by: 'processed' })
  await guards.admin(violated(2))
  expect(await guard.process(make())).toMatchObject({ kind: 'ack', by: 'processed' })
  expect(errors).toEqual([])
  await guard.close()
  await guards.close()
})

it.each(DRIVERS)('$name: an index of the user that refuses every event is reported', async (on) => {
  const guards = await guardsOn(on.connect)
  const guard = guards.make(() => undefined)
  await guards.admin(violated(1_000))
  const settlement = await guard.process(order())
  expect(settlement).toMatchObject({ kind: 'defer', cause: 'store-error' })
  expect(String('error' in settlement && settlement.error)).toContain('23505')
  await guard.close()
  await guards.close()
})
