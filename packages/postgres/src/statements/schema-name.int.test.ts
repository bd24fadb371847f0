import { ConfigurationError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { fresh, newEvent, registration } from '@onceward/testing/conformance'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { SCHEMA_VERSION } from '../inbox/schema-version.ts'
import { migrate } from '../operators/migrate.ts'
import { pgInbox } from '../pg.ts'

let inbox: TestInbox

beforeAll(async () => {
  inbox = await testInbox()
})
afterAll(() => inbox[Symbol.asyncDispose]())

describe('processed_events', () => {
  it('needs at most 120 bytes for an event, its index included', async () => {
    const { pool } = inbox
    const rows = 400_000
    await migrate(pool, { schema: 'size' })
    await pool.query(
      `insert into size.processed_events (event_id, fingerprint, consumer_id)
       select gen_random_uuid(), (random() * 1e18)::bigint, 1 from generate_series(1, ${rows})`,
    )
    const answer = await pool.query(
      "select pg_relation_size('size.processed_events')::int + pg_indexes_size('size.processed_events')::int as bytes",
    )
    expect(answer.rows[0].bytes / rows).toBeLessThanOrEqual(120)
  })

  it('is the only table with a row for a clean event', async () => {
    const { pool, steps } = inbox
    const event = newEvent()
    await steps.commit(fresh(event))
    const tables = ['failed_events', 'event_results', 'refused_messages']
    for (const table of tables) {
      const { rows } = await pool.query(`select count(*)::int as n from onceward.${table}`)
      expect(rows[0].n).toBe(0)
    }
  })
})

// Red when a guard opens without checking the version: every insert of new code would fail on old tables.
describe('trap T34: opening a guard', () => {
  const open = (schema: string) => pgInbox(inbox.pool, { schema }).open(registration(systemRuntime))

  it('without tables gives an error that says how to create them', async () => {
    const opening = open('nowhere')
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(
      /missing in schema "nowhere" of the database \w+: run `npx onceward migrate`/,
    )
  })

  it('on older tables gives an error that says to migrate, and writes nothing', async () => {
    await migrate(inbox.pool, { schema: 'older' })
    await inbox.pool.query(`update older.migrations set version = version - ${SCHEMA_VERSION}`)
    await expect(open('older')).rejects.toThrow(
      `have version 0, this code needs ${SCHEMA_VERSION}: run \`await migrate`,
    )
    const { rows } = await inbox.pool.query('select * from older.consumers')
    expect(rows).toEqual([])
  })

  it('on newer tables gives an error that says to update', async () => {
    await migrate(inbox.pool, { schema: 'newer' })
    await inbox.pool.query("insert into newer.migrations (version, name) values ($1, 'next')", [
      SCHEMA_VERSION + 1,
    ])
    const opening = open('newer')
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(
      `have version ${SCHEMA_VERSION + 1}, this code knows ${SCHEMA_VERSION}: update @onceward/postgres`,
    )
  })

  it('on an incomplete schema gives a configuration error', async () => {
    await migrate(inbox.pool, { schema: 'half' })
    await inbox.pool.query('drop table half.settings')
    await expect(open('half')).rejects.toThrow(ConfigurationError)
  })
})
