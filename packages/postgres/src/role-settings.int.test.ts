import { randomUUID } from 'node:crypto'
import { FatalError, RetryableError } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { installedPostgres, type PostgresServer, postgresOf } from '@onceward/testing/servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DRIVERS, type Guards, order } from './fixtures/guards.ts'
import { migrate } from './operators/migrate.ts'

// Red when a statement of onceward depends on what an administrator has set for a role or a database.

const SETTINGS = [
  'search_path = hostile, pg_catalog',
  'synchronous_commit = off',
  'statement_timeout = 2000',
  'lock_timeout = 1',
  'idle_in_transaction_session_timeout = 2000',
  'row_security = off',
  'standard_conforming_strings = off',
  "datestyle = 'German'",
  'intervalstyle = sql_standard',
  "timezone = 'Asia/Kathmandu'",
  'bytea_output = escape',
  'extra_float_digits = 0',
  'default_transaction_read_only = on',
  'default_transaction_isolation = serializable',
  'default_transaction_deferrable = on',
  'quote_all_identifiers = on',
  'array_nulls = off',
  'jit = off',
]

const OBJECTS = `
create table effects (key text, synchronous_commit text);
create schema hostile;
create function hostile.now() returns timestamptz language sql as $$ select timestamptz 'epoch' $$;
create function hostile.set_config(text, text, boolean) returns text language sql as $$ select 'hostile' $$;
create function hostile.current_setting(text) returns text language sql as $$ select '1' $$;
create function hostile.differ(uuid, uuid) returns boolean language sql as $$ select false $$;
create operator hostile.= (leftarg = uuid, rightarg = uuid, function = hostile.differ);
create domain hostile.text as integer;
create domain hostile.uuid as integer`

const PLACES = {
  role: (role: string) => `alter role ${role}`,
  database: (_role: string, name: string) => `alter database ${name}`,
  'role in database': (role: string, name: string) => `alter role ${role} in database ${name}`,
}

const OLD = await installedPostgres(15)
const SERVERS = [
  { server: 'the server of all tests', from: undefined },
  ...(OLD === undefined ? [] : [{ server: 'PostgreSQL 15', from: OLD }]),
]

describe.each(SERVERS)('on $server', ({ from }) => {
  let old: PostgresServer | undefined
  beforeAll(async () => {
    if (from !== undefined) old = await postgresOf(from)
  })
  afterAll(() => old?.stop())

  const worlds = DRIVERS.filter(({ name }) => name !== 'pglite').flatMap((driver) =>
    Object.entries(PLACES).map(([place, alter]) => ({ ...driver, place, alter })),
  )

  it.each(worlds)(
    'settings by alter $place hurt no event, over $name',
    async ({ connect, alter }) => {
      const url = new URL((await old?.createDatabase()) ?? (await database()).url)
      const role = `settings_${randomUUID().slice(0, 8)}`
      const admin = await connect({ url: url.href })
      await admin.admin(`create role ${role} superuser login`)
      await admin.admin(OBJECTS)
      for (const setting of SETTINGS) {
        await admin.admin(`${alter(role, url.pathname.slice(1))} set ${setting}`)
      }
      const guards: Guards = await connect({ url: Object.assign(url, { username: role }).href })
      if (guards.pool !== undefined) await migrate(guards.pool)
      for (const transaction of ['each', 'batch'] as const) await play(guards, transaction)
      await guards.close()
      await admin.admin(`drop owned by ${role}`).catch(() => undefined)
      await admin.close()
    },
  )
})

const EFFECT = `insert into public.effects select $1, pg_catalog.current_setting('synchronous_commit')`

async function play(guards: Guards, transaction: 'each' | 'batch'): Promise<void> {
  const guard = guards.make(
    async ({ key, payload, attempt }, run) => {
      await run(EFFECT, [key])
      if (payload['fails'] === true && attempt === 1) throw new RetryableError('later')
      if (payload['dies'] === true) throw new FatalError('never')
      return `é ' \\ ${key}`
    },
    { transaction, concurrency: 4 },
  )
  const orders = [order(), order({ fails: true }), order(), order({ dies: true })]
  const settled = await guard.processBatch(orders)
  expect(settled.map(({ kind }) => kind)).toEqual(['ack', 'defer', 'ack', 'dead-letter'])
  const [clean, failing] = orders
  if (clean === undefined || failing === undefined) return
  await until(async () => (await guard.process(failing)).kind === 'ack')
  for (const each of [clean, failing]) {
    const key = each.headers['idempotency-key']
    expect(await guard.process(each)).toMatchObject({
      by: 'duplicate',
      result: `é ' \\ ${key}`,
    })
    const [row] = await guards.admin(
      'select synchronous_commit as value from public.effects where key operator(pg_catalog.=) $1',
      [key],
    )
    expect(row).toEqual({ value: 'on' })
  }
  await guard.close()
}
