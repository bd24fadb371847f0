import { randomUUID } from 'node:crypto'
import { ConfigurationError } from '@onceward/core'
import { type ConsumerRegistration, type InboxSession, systemRuntime } from '@onceward/core/ports'
import { database } from '@onceward/testing'
import { newEvent, registration, Steps } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate, migrationSql } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

// An administrator has made something of the tables on which a guard cannot keep its promises.

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

// The usual way to partition by age. `on conflict` sees no conflict between two partitions.
const PARTITIONED = `
alter table %.processed_events rename to former;
create table %.processed_events (like %.former including defaults, primary key (event_id, processed_at))
  partition by range (processed_at);
create table %.only_part partition of %.processed_events default`

// Red before: the guard opened, and an event that came again in another partition ran again.
test('partitioned events are refused by name', async () => {
  const opening = opened(PARTITIONED)
  await expect(opening).rejects.toThrow(ConfigurationError)
  await expect(opening).rejects.toThrow(
    /^"unfit ""\d'"\.processed_events is not an ordinary table: .* Put an ordinary table/,
  )
})

const PUBLISHED = `
alter table %.failed_events replica identity nothing;
create publication "all ""of it" for table %.processed_events, %.failed_events`

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
