import { randomBytes } from 'node:crypto'
import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { database, postgres } from '@onceward/testing'
import { hotStandby } from '@onceward/testing/adapter'
import { fresh, newClaim, newEvent, registration, Steps } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SCHEMA_VERSION } from '../inbox/schema-version.ts'
import { postgresLeases } from '../lease-store.ts'
import { startRelay } from '../outbox/relay.ts'
import { pgInbox } from '../pg.ts'
import { deadLetters } from './dead-letters.ts'
import { migrate } from './migrate.ts'

let url: string
let pool: pg.Pool

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url })
})
afterAll(() => pool.end())

async function tables(schema: string): Promise<string[]> {
  const { rows } = await pool.query(
    'select tablename from pg_tables where schemaname = $1 order by 1',
    [schema],
  )
  return rows.map(({ tablename }) => tablename)
}

const FILES = [
  '000001-inbox.sql',
  '000002-leases.sql',
  '000003-workers.sql',
  '000004-outbox.sql',
  '000005-kafka-offsets.sql',
  '000006-outbox-leases.sql',
  '000007-pauses.sql',
  '000008-removed-consumers.sql',
]

describe('migrate', () => {
  it('creates the tables in the given schema, even if its name must be quoted', async () => {
    const schema = `we"ird schema's`
    expect(await migrate(pool, { schema })).toEqual({
      applied: FILES,
      version: SCHEMA_VERSION,
    })
    expect(await tables(schema)).toEqual([
      'audit',
      'consumers',
      'event_results',
      'failed_event_parts',
      'failed_events',
      'kafka_offsets',
      'leases',
      'migrations',
      'outbox_leases',
      'outbox_messages',
      'processed_events',
      'refused_message_parts',
      'refused_messages',
      'settings',
      'suspect_messages',
      'workers',
    ])
  })

  // Red before: the first `$$` of the name ended the bodies of the functions, and a syntax error came out.
  it.each(['pay$$load', 'pay$1$$o$$oo$', '$$'])(
    'creates the tables in the schema %s, and its functions work',
    async (schema) => {
      expect(await migrate(pool, { schema })).toMatchObject({ applied: FILES })
      await pool.query(`select "${schema}".forget_history(), "${schema}".trust_clock()`)
      const leases = postgresLeases(pool, { schema })
      expect(await leases.claim([newClaim()])).toMatchObject([{ kind: 'acquired' }])
      const session = await pgInbox(pool, { schema }).open(registration(systemRuntime))
      const steps = new Steps(session, async () => undefined)
      const event = newEvent()
      await steps.buried(event)
      const operator = deadLetters(pool, { schema })
      expect(await operator.replay(event.id)).toEqual({ done: [event.id], untouched: [] })
    },
  )

  it('applies each migration once when ten processes call it at once', async () => {
    const pools = Array.from({ length: 10 }, () => new pg.Pool({ connectionString: url, max: 1 }))
    const done = await Promise.all(pools.map((one) => migrate(one, { schema: 'ten' })))
    await Promise.all(pools.map((one) => one.end()))
    expect(done.flatMap(({ applied }) => applied)).toEqual(FILES)
    const { rows } = await pool.query('select count(*)::int as n from ten.settings')
    expect(rows[0].n).toBe(1)
  })

  it('needs no right to create anything if there is nothing to do', async () => {
    await migrate(pool, { schema: 'quiet' })
    const role = `quiet_${randomBytes(4).toString('hex')}`
    await pool.query(`create role ${role} login;
      grant usage on schema quiet to ${role};
      grant select on quiet.migrations to ${role}`)
    const address = Object.assign(new URL(url), { username: role })
    const low = new pg.Pool({ connectionString: address.href, max: 1 })
    expect((await migrate(low, { schema: 'quiet' })).applied).toEqual([])
    await low.end()
    await pool.query(`drop owned by ${role}; drop role ${role}`)
  })

  it('refuses tables that are newer than this code, and changes nothing', async () => {
    await migrate(pool, { schema: 'newer' })
    await pool.query(`insert into newer.migrations (version, name) values (999, 'future.sql')`)
    const attempt = migrate(pool, { schema: 'newer' })
    await expect(attempt).rejects.toThrow(ConfigurationError)
    await expect(attempt).rejects.toThrow(
      `version 999, this code knows ${SCHEMA_VERSION}: update @onceward/postgres`,
    )
  })

  // Red when code refuses every newer version: a pod that restarts during a deployment would not come back.
  it('leaves newer tables alone that this code can use, and guards run on them', async () => {
    const schema = 'next'
    await migrate(pool, { schema })
    const next = SCHEMA_VERSION + 1
    const old = pgInbox(pool, { schema })
    const running = await old.open(registration(systemRuntime))
    await pool.query(
      `alter table next.processed_events add column note text;
       insert into next.migrations (version, name, readable_from) values (${next}, 'next.sql', ${SCHEMA_VERSION})`,
    )
    expect(await migrate(pool, { schema })).toEqual({ applied: [], version: next })
    const restarted = await old.open(registration(systemRuntime))
    for (const session of [running, restarted]) {
      const begun = await session.begin(fresh(newEvent()))
      expect(begun).toMatchObject({ kind: 'open' })
      if (begun.kind === 'open') await begun.transaction.rollback()
    }
    // Every migration says for itself, and the strictest decides.
    await pool.query(
      `insert into next.migrations (version, name) values (${next + 1}, 'break.sql');
       insert into next.migrations (version, name, readable_from) values (${next + 2}, 'soft.sql', ${SCHEMA_VERSION})`,
    )
    const refusal = new RegExp(`version ${next + 2}, .* from the code of version ${next + 1} on`)
    await expect(migrate(pool, { schema })).rejects.toThrow(refusal)
    await expect(old.open(registration(systemRuntime))).rejects.toThrow(refusal)
  })

  it('is asked for by name where the tables are older than this code', async () => {
    await migrate(pool, { schema: 'older' })
    await pool.query(`delete from older.migrations where version = ${SCHEMA_VERSION}`)
    const opening = pgInbox(pool, { schema: 'older' }).open(registration(systemRuntime))
    const refusal = /run `await migrate\(pool\)` before starting it/
    await expect(opening).rejects.toThrow(refusal)
    const destinations = { payments: { batch: 1, publish: async () => [] } }
    await expect(startRelay({ pool, schema: 'older', destinations })).rejects.toThrow(refusal)
  })

  // Red before: every claim queued behind the waiting `alter table`, for as long as the other transaction was open.
  it('gives up a table that a long transaction holds, so that consumers go on', async () => {
    const schema = 'busy'
    await migrate(pool, { schema })
    const long = await pool.connect()
    await long.query('begin')
    await long.query('select from busy.leases')
    const attempt = migrate(pool, { schema, leases: 'unlogged' })
    await expect(attempt).rejects.toThrow(StoreUnavailableError)
    await expect(attempt).rejects.toThrow(/table in schema "busy" .*: nothing was changed/)
    await long.query('rollback')
    long.release()
    expect(await migrate(pool, { schema, leases: 'unlogged' })).toMatchObject({ applied: [] })
  })

  // Red when each deployment takes the table alone, although there is nothing to change.
  it.each(['logged', 'unlogged'] as const)(
    'does not wait for a table that is %s already',
    async (leases) => {
      const schema = `is_${leases}`
      await migrate(pool, { schema, leases })
      const long = await pool.connect()
      await long.query(`begin; select from ${schema}.leases`)
      expect(await migrate(pool, { schema, leases })).toMatchObject({ applied: [] })
      await long.query('rollback')
      long.release()
    },
  )

  // Red when the limit of operators' statements stays: a change of a large table would never end.
  it('gives its statements as long as they take', async () => {
    await pool.query(`
      create table public.limits (setting text);
      create function public.note() returns event_trigger language plpgsql as $$ begin
        insert into public.limits values (pg_catalog.current_setting('statement_timeout'));
      end $$;
      create event trigger note on ddl_command_end execute function public.note()`)
    await migrate(pool, { schema: 'long' })
    await pool.query('drop event trigger note')
    const { rows } = await pool.query('select distinct setting from public.limits')
    expect(rows).toEqual([{ setting: '0' }])
  })

  // Red before: the error of pg came out, and the command line advised the rights of consumers.
  it('says who may run it to a role that may not', async () => {
    const role = `low_${randomBytes(4).toString('hex')}`
    const old = `old_${randomBytes(4).toString('hex')}`
    await migrate(pool, { schema: old })
    await pool.query(`create role ${role} login;
      grant usage on schema ${old} to ${role};
      grant select on ${old}.migrations to ${role}`)
    const address = Object.assign(new URL(url), { username: role })
    const low = new pg.Pool({ connectionString: address.href, max: 1 })
    for (const options of [
      { schema: 'nobody_made_it' },
      { schema: old, leases: 'unlogged' },
    ] as const) {
      const attempt = migrate(low, options)
      await expect(attempt).rejects.toThrow(ConfigurationError)
      await expect(attempt).rejects.toThrow(/\(.*\): run it as the owner of the tables/)
    }
    await low.end()
    await pool.query(`drop owned by ${role}; drop role ${role}`)
  })

  // Red before: the error of pg came out.
  it('says on a standby to connect to the primary', async () => {
    await using primary = await postgres()
    await using standby = await hotStandby(primary)
    const reader = new pg.Pool({ connectionString: standby.connection.url, max: 1 })
    const attempt = migrate(reader)
    await expect(attempt).rejects.toThrow(StoreUnavailableError)
    await expect(attempt).rejects.toThrow(/connect to the primary/)
    await reader.end()
  })

  it('leaves nothing behind when a migration fails half way', async () => {
    await pool.query('create schema half; create table half.refused_messages (x int)')
    await expect(migrate(pool, { schema: 'half' })).rejects.toThrow(/already exists/)
    expect(await tables('half')).toEqual(['refused_messages'])
  })
})
