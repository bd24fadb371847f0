import { randomUUID } from 'node:crypto'
import { systemRuntime } from '@onceward/core/ports'
import { database } from '@onceward/testing'
import { newDelivery, newEvent, registration, Steps } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { all } from './fixtures/inbox.ts'
import { SCHEMA_VERSION } from './inbox/schema-version.ts'
import { deadLetters, forgetHistory, migrate } from './index.ts'
import { pgInbox } from './pg.ts'

let admin: pg.Pool
let hostile: pg.Pool

// Under this role the functions and operators of PostgreSQL are others, every statement is too slow, and no commit is
// durable. Triggers write down what is in force when onceward changes something.
const DEFAULTS = [
  'search_path = evil, pg_catalog, public',
  "statement_timeout = '50ms'",
  "lock_timeout = '1ms'",
  'default_transaction_read_only = on',
  "default_transaction_isolation = 'serializable'",
  'synchronous_commit = off',
]

const SHADOWS = `
create schema evil;
create function evil.raise() returns text language plpgsql as $$ begin raise 'evil'; end $$;
create function evil.now() returns timestamptz language sql as 'select evil.raise()::timestamptz';
create function evil.encode(bytea, text) returns text language sql as 'select evil.raise()';
create function evil.clock_timestamp() returns timestamptz language sql as 'select evil.raise()::timestamptz';
create function evil.hashtextextended(text, bigint) returns bigint language sql as 'select evil.raise()::bigint';
create function evil.to_regclass(text) returns regclass language sql as 'select evil.raise()::regclass';
create function evil.current_setting(text) returns text language sql as 'select evil.raise()';
create function evil.no(uuid, uuid) returns boolean language sql as 'select false';
create operator evil.= (leftarg = uuid, rightarg = uuid, function = evil.no);
create function evil.no(text, text) returns boolean language sql as 'select false';
create operator evil.= (leftarg = text, rightarg = text, function = evil.no)`

const WATCH = `
create table public.seen (settings text);
create function public.watch() returns trigger language plpgsql as $$ begin
  perform pg_catalog.pg_sleep(0.1);
  insert into public.seen select pg_catalog.concat_ws(' ', pg_catalog.current_setting('synchronous_commit'),
    pg_catalog.current_setting('transaction_isolation'), pg_catalog.current_setting('search_path'));
  return null;
end $$;
create function public.watch_ddl() returns event_trigger language plpgsql as $$ begin
  insert into public.seen select pg_catalog.concat_ws(' ', pg_catalog.current_setting('synchronous_commit'),
    pg_catalog.current_setting('transaction_isolation'), pg_catalog.current_setting('search_path'));
end $$;
create event trigger watch_ddl on ddl_command_end execute function public.watch_ddl()`

beforeAll(async () => {
  const { url } = await database()
  admin = new pg.Pool({ connectionString: url, max: 4 })
  const role = `hostile_${randomUUID().slice(0, 8)}`
  await admin.query(`create role ${role} superuser login; ${SHADOWS}; ${WATCH}`)
  for (const setting of DEFAULTS) await admin.query(`alter role ${role} set ${setting}`)
  const address = Object.assign(new URL(url), { username: role })
  hostile = new pg.Pool({ connectionString: address.href, max: 4 })
})
afterAll(async () => {
  await Promise.all([hostile.end(), admin.end()])
})

/** What was in force at the changes since the last call. */
async function seen(): Promise<readonly string[]> {
  const { rows } = await admin.query(
    'with s as (delete from public.seen returning settings) select distinct settings from s',
  )
  return rows.map(({ settings }) => settings)
}

const OURS = ['on read committed pg_catalog, pg_temp']

// Red where a statement depends on the defaults of the role: it fails, finds nothing, or is not durable.
test('migrate and the actions of operators do not depend on the defaults of their role', async () => {
  expect((await migrate(hostile)).applied).toHaveLength(SCHEMA_VERSION)
  expect(await seen()).toEqual(OURS)
  expect((await migrate(hostile, { leases: 'unlogged' })).applied).toEqual([])
  expect(await seen()).toEqual(OURS)
  await admin.query(`
    create trigger watch after insert on onceward.audit for each row execute function public.watch();
    create trigger watch after update on onceward.settings for each row execute function public.watch()`)
  await admin.query('delete from public.seen')
  await forgetHistory(hostile)
  expect(await seen()).toEqual(OURS)

  const session = await pgInbox(admin).open(
    registration(systemRuntime, { concurrency: 1, concurrencyChosen: false }),
  )
  const steps = new Steps(session, async () => undefined)
  const events = [newEvent(), newEvent()] as const
  for (const event of events) await steps.buried(event)
  const refusal = { reason: 'invalid-payload', error: 'x' } as const
  const refused = await session.refuse([
    { ...refusal, delivery: newDelivery() },
    { ...refusal, delivery: newDelivery() },
  ])
  const ids = [...events, ...refused].map(({ id }) => id)
  const operator = deadLetters(hostile)
  const listed = await all(operator.list({ consumer: 'billing' }))
  expect(listed.map(({ id }) => id).sort()).toEqual([...ids].sort())
  for (const id of ids) expect(await operator.show(id)).toMatchObject({ id })
  for (const id of [events[0].id, refused[0]?.id ?? '']) {
    expect(await operator.replay(id)).toEqual({ done: [id], untouched: [] })
  }
  for (const id of [events[1].id, refused[1]?.id ?? '']) {
    expect(await operator.discard(id, 'a test')).toEqual({ done: [id], untouched: [] })
  }
  expect(await seen()).toEqual(OURS)
  expect(await all(operator.list())).toEqual([])
})
