import { randomUUID } from 'node:crypto'
import {
  ConfigurationError,
  type ConsumerRegistration,
  type InboxSession,
  systemRuntime,
} from '@onceward/core'
import { database } from '@onceward/testing'
import { newEvent, registration, Steps, silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate, migrationSql } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

// An administrator has made something of the tables on which a guard cannot keep its promises. Nothing else says so: the
// guard opens, and events are deferred for ever, or forgotten.

let pool: pg.Pool
let url: string
let schemas = 0

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url, max: 4 })
})
afterAll(() => pool.end())

/** Opens a guard on new tables after `change`, in which `%` stands for the schema. */
async function opened(
  change: string,
  over: Partial<ConsumerRegistration> = {},
): Promise<InboxSession<pg.PoolClient>> {
  schemas += 1
  const schema = `unfit "${schemas}'`
  const quoted = `"unfit ""${schemas}'"`
  await migrate(pool, { schema })
  await pool.query(change.replaceAll('%', quoted))
  return pgInbox(pool, { schema }).open(registration(systemRuntime, over))
}

const PARTITIONED = `
alter table %.processed_events rename to former;
create table %.processed_events (like %.former including defaults, primary key (event_id)) partition by hash (event_id);
create table %.only_part partition of %.processed_events for values with (modulus 1, remainder 0)`

// Red before: a batch asked each claim for `xmin`, which such a table does not have, and was deferred for ever with the
// advice to promote a standby. Nothing was swept.
test('partitioned events are refused by name', async () => {
  const opening = opened(PARTITIONED)
  await expect(opening).rejects.toThrow(ConfigurationError)
  await expect(opening).rejects.toThrow(
    /^"unfit ""\d'"\.processed_events is partitioned: .* Put an ordinary table/,
  )
})

// Red before: deferred for ever, with the same advice.
test('tables with rules for inserts are refused by name', async () => {
  const opening = opened('create rule none as on insert to %.event_results do instead nothing')
  await expect(opening).rejects.toThrow(ConfigurationError)
  await expect(opening).rejects.toThrow(/event_results has rules .*drop rule … on "unfit/)
})

// Red before: nothing warned, and a crash of the server emptied the only record of what is done.
test('unlogged tables are refused by name, apart from those of leases', async () => {
  const opening = opened(
    'alter table %.processed_events set unlogged; alter table %.event_results set unlogged',
  )
  await expect(opening).rejects.toThrow(ConfigurationError)
  await expect(opening).rejects.toThrow(
    /event_results is unlogged.*\n.*processed_events is unlogged.*`alter table "unfit ""\d'"\.processed_events set logged`/,
  )
  expect(await opened('alter table %.leases set unlogged')).toHaveProperty('concurrency')
})

const TRIGGERS = `
create function %.skip() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger skip before insert on %.processed_events for each row execute function %.skip();
create trigger stamp before insert or update on %.failed_events for each row execute function %.skip();
create trigger later after insert on %.processed_events for each row execute function %.skip();
create trigger off before delete on %.processed_events for each row execute function %.skip();
alter table %.processed_events disable trigger off`

// Red before: a trigger that returns null suppressed each claim, and each event was deferred as running elsewhere, for ever.
test('triggers that may suppress a change are named in a warning, and the guard opens', async () => {
  const told: unknown[] = []
  const warn = (fields: object, message: string): void => void told.push([fields, message])
  await opened(TRIGGERS, { logger: { ...silent, warn } })
  expect(told).toEqual([
    [
      {
        consumer: 'billing',
        finding: expect.stringMatching(/\.failed_events has triggers .*: stamp\. If one/),
        remedy: expect.stringContaining('`after` trigger'),
      },
      'a trigger may suppress changes of onceward',
    ],
    [
      expect.objectContaining({ finding: expect.stringMatching(/\.processed_events .*: skip\./) }),
      'a trigger may suppress changes of onceward',
    ],
  ])
})

const PUBLISHED = `
alter table %.failed_events replica identity nothing;
create publication "all ""of it" for table %.processed_events, %.failed_events`
const IDENTIFIED =
  /failed_events is published by "all ""of it" without a replica identity.*`alter table "unfit .*failed_events replica identity default`/

// Red before: the guard opened, and a failure could not be recorded, which looked like an outage.
test('published tables without a replica identity are refused by name', async () => {
  const opening = opened(PUBLISHED)
  await expect(opening).rejects.toThrow(ConfigurationError)
  await expect(opening).rejects.toThrow(IDENTIFIED)
  await pool.query('drop publication "all ""of it"')
  await opened('alter table %.failed_events replica identity nothing')
  await opened(`create publication complete for table %.processed_events`)
})

// Red before: the store looked down, so the consumer paused without a word about what to do.
test('a table that is published later without a replica identity makes a configuration error', async () => {
  const session = await opened('select')
  const steps = new Steps(session, async () => undefined)
  const schema = `"unfit ""${schemas}'"`
  await pool.query(PUBLISHED.replaceAll('%', schema))
  const failing = steps.buried(newEvent())
  await expect(failing).rejects.toThrow(ConfigurationError)
  await expect(failing).rejects.toThrow(
    /replica identity.*`alter table … replica identity default`/,
  )
  await pool.query('drop publication "all ""of it"')
})

// Red before: nothing said that the pieces of large messages stay when their row goes.
test('a login whose foreign keys do not act gets a warning, and the guard opens', async () => {
  const role = `replica_${randomUUID().slice(0, 8)}`
  await pool.query(
    `create role ${role} superuser login; alter role ${role} set session_replication_role = replica`,
  )
  await migrate(pool)
  const address = Object.assign(new URL(url), { username: role })
  const replica = new pg.Pool({ connectionString: address.href, max: 4 })
  const told: unknown[] = []
  const warn = (fields: object, message: string): void => void told.push({ fields, message })
  await pgInbox(replica).open(registration(systemRuntime, { logger: { ...silent, warn } }))
  expect(told).toEqual([
    {
      fields: { consumer: 'billing', remedy: 'alter role … reset session_replication_role' },
      message: expect.stringMatching(/^`session_replication_role` is replica /),
    },
  ])
  await replica.end()
  await pool.query(`drop owned by ${role}; drop role ${role}`)
})

// Red before: `migrate` refused such a database, and its printed SQL did not. A failure with any other character was
// deferred for ever.
test('tables in a database of another encoding are refused with the words of migrate', async () => {
  const name = `latin1_${randomUUID().slice(0, 8)}`
  const { rows } = await pool.query("select current_setting('server_version_num')::int as version")
  const provider = rows[0].version < 150_000 ? '' : 'locale_provider libc'
  await pool.query(
    `create database ${name} encoding 'LATIN1' locale 'C' ${provider} template template0`,
  )
  const address = Object.assign(new URL(url), { pathname: name })
  const latin = new pg.Pool({ connectionString: address.href, max: 4 })
  for (const { sql } of migrationSql()) await latin.query(sql)
  const text =
    /^Expected a database with encoding UTF8, got LATIN1: create one with `create database …/
  const opening = pgInbox(latin).open(registration(systemRuntime))
  await expect(opening).rejects.toThrow(ConfigurationError)
  await expect(opening).rejects.toThrow(text)
  await expect(migrate(latin)).rejects.toThrow(text)
  await latin.end()
  await pool.query(`drop database ${name} (force)`)
})
