import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { ConfigurationError, systemRuntime } from '@onceward/core'
import { fresh, newClaim, newEvent, registration } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deadLetters } from '../dead-letters.ts'
import { type TestInbox, testInbox } from '../fixtures/inbox.ts'
import { postgresLeases } from '../lease-store.ts'
import { migrate } from '../migrate.ts'
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
      /missing in schema "nowhere": run `await migrate\(pool\)`/,
    )
  })

  it('on older tables gives an error that says to migrate, and writes nothing', async () => {
    await migrate(inbox.pool, { schema: 'older' })
    await inbox.pool.query('update older.migrations set version = version - 2')
    await expect(open('older')).rejects.toThrow(
      /have version 0, this code needs 2: run `await migrate/,
    )
    const { rows } = await inbox.pool.query('select * from older.consumers')
    expect(rows).toEqual([])
  })

  it('on newer tables gives an error that says to update', async () => {
    await migrate(inbox.pool, { schema: 'newer' })
    await inbox.pool.query("insert into newer.migrations (version, name) values (3, 'next')")
    const opening = open('newer')
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(
      /have version 3, this code knows 2: update @onceward\/postgres/,
    )
  })

  it('on an incomplete schema gives a configuration error', async () => {
    await migrate(inbox.pool, { schema: 'half' })
    await inbox.pool.query('drop table half.settings')
    await expect(open('half')).rejects.toThrow(ConfigurationError)
  })
})

describe('the roles of docs/least-privilege.sql', () => {
  it('are sufficient for guards and for operators, and allow nothing else', async () => {
    const { pool } = inbox
    const schema = 'least'
    await migrate(pool, { schema })
    const script = await readFile(
      new URL('../../../../docs/least-privilege.sql', import.meta.url),
      'utf8',
    )
    await using roles = await loginRoles(script.replaceAll(':"schema"', schema))
    await using consumer = poolOf(roles.consumer)
    await using operator = poolOf(roles.operator)

    const session = await pgInbox(consumer.pool, { schema }).open(registration(systemRuntime))
    const [event, done] = [newEvent(), newEvent()]
    const begun = await session.begin(fresh(done))
    if (begun.kind !== 'open') throw new Error(`expected a claim, got ${begun.kind}`)
    await begun.transaction.commit({ results: new Map([[done.id, '{}']]), recovered: [] })
    const burial = { event, attempt: 1, error: 'no', reason: 'fatal' } as const
    expect(await session.bury([burial])).toEqual(['recorded'])
    const { delivery } = newEvent()
    const [refused] = await session.refuse([{ delivery, reason: 'invalid-payload', error: 'no' }])
    expect(await session.due(10)).toEqual([])
    await session.sweep()
    expect(await session.identity()).toMatch(/^\d+\.[0-9A-F]{8}\.\d+\.\d+\.\d+\.\d+$/)
    const leases = postgresLeases(consumer.pool, { schema })
    const [held, ended] = [newClaim(), newClaim()]
    expect(await leases.claim([held, ended])).toMatchObject([{ attempt: 1 }, { attempt: 1 }])
    expect(await leases.complete([ended], 1_000)).toEqual(['held'])
    expect(await leases.release([held])).toEqual(['held'])

    const operated = deadLetters(operator.pool, { schema })
    expect(await operated.replay(event.id)).toEqual({ done: [event.id], untouched: [] })
    expect((await operated.discard(refused?.id ?? '', 'spam')).done).toEqual([refused?.id])
    const { rows } = await pool.query('select who, action from least.audit order by id')
    expect(rows).toEqual([
      { who: roles.operator, action: 'replay' },
      { who: roles.operator, action: 'discard' },
    ])

    const forbidden = /permission denied/
    await expect(consumer.pool.query('create table least.mine (x int)')).rejects.toThrow(forbidden)
    await expect(consumer.pool.query('select * from least.audit')).rejects.toThrow(forbidden)
    const forge = `insert into least.processed_events (event_id, fingerprint, consumer_id)
      values (gen_random_uuid(), 0, 1)`
    await expect(operator.pool.query(forge)).rejects.toThrow(forbidden)
    await expect(operator.pool.query('delete from least.audit')).rejects.toThrow(forbidden)
  })

  /** Roles belong to the whole server, which other tests and runs share, so their names are unique. */
  async function loginRoles(script: string) {
    const { pool } = inbox
    const suffix = randomBytes(4).toString('hex')
    const groups = [`onceward_consumer_${suffix}`, `onceward_operator_${suffix}`] as const
    const [consumer, operator] = [`billing_${suffix}`, `ops_${suffix}`]
    await pool.query(script.replaceAll(/onceward_(consumer|operator)/g, `$&_${suffix}`))
    await pool.query(
      `create role ${consumer} login in role ${groups[0]}; create role ${operator} login in role ${groups[1]}`,
    )
    return {
      ...{ consumer, operator },
      [Symbol.asyncDispose]: async () => {
        await pool.query(
          `drop owned by ${groups.join()}; drop role ${consumer}, ${operator}, ${groups.join()}`,
        )
      },
    }
  }

  function poolOf(user: string): AsyncDisposable & { readonly pool: pg.Pool } {
    const url = Object.assign(new URL(inbox.url), { username: user }).href
    const pool = new pg.Pool({ connectionString: url, max: 8 })
    return { pool, [Symbol.asyncDispose]: () => pool.end() }
  }
})
