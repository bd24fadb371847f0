import { ConfigurationError, type Destination } from '@onceward/core'
import { systemRuntime, toCollected } from '@onceward/core/ports'
import { database, until } from '@onceward/testing'
import {
  fresh,
  newClaim,
  newEvent,
  registration,
  Steps,
  silent,
} from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { passTime } from './fixtures/inbox.ts'
import {
  countOf,
  type LeastPrivilege,
  leastPrivilege,
  twoConsumers,
  WINDOW_MS,
} from './fixtures/least-privilege.ts'
import { postgresLeases } from './index.ts'
import { startRelay } from './outbox/relay.ts'
import { pgInbox } from './pg.ts'

let admin: pg.Pool
let roles: LeastPrivilege

beforeAll(async () => {
  const { url } = await database()
  admin = new pg.Pool({ connectionString: url, max: 10 })
  roles = await leastPrivilege(admin, url)
})
afterAll(async () => {
  await roles[Symbol.asyncDispose]()
  await admin.end()
})

const scenario = () => twoConsumers(admin, roles)

describe('the role of consumers', () => {
  it.each([
    'select * from least.failed_events',
    'select * from least.refused_messages',
    'select * from least.event_results',
    'update least.failed_events set attempt = 0',
    'update least.refused_messages set times = 0',
    "update least.event_results set result = '{}'",
    "update least.processed_events set state = 'd'",
    'update least.consumers set dedup_window_ms = 0',
    'delete from least.processed_events',
    'delete from least.failed_events',
    'delete from least.refused_messages',
    'delete from least.event_results',
    "update least.workers set name = 'x'",
    'delete from least.workers',
  ])('does nothing to what is another consumer’s: %s', async (text) => {
    await scenario()
    // Its own consumer is the only row that may be counted.
    const own = text.includes('consumers') ? 1 : 0
    expect(await countOf(roles.billing, text)).toBe(own)
    const before =
      own === 1 ? 1 : await countOf(admin, text.replace(/^.* (least\.\w+).*$/, 'table $1'))
    expect(before).toBeGreaterThan(0)
    const windows = await admin.query(
      "select dedup_window_ms from least.consumers where name = 'mailing'",
    )
    expect(Number(windows.rows[0].dedup_window_ms)).toBe(WINDOW_MS)
  })

  it('sends with its commit, and can neither read nor take back what was sent', async () => {
    const { billing } = await scenario()
    const message = toCollected(
      { to: 'payments', key: 'k', payload: 1 },
      { source: 'billing', newId: () => 'm-1' },
    )
    const begun = await billing.begin(fresh(newEvent()))
    if (begun.kind !== 'open') throw new Error('expected an open transaction')
    const commit = { results: new Map(), recovered: [], sends: [message] }
    expect(await begun.transaction.commit(commit)).toEqual({ kind: 'committed' })
    expect(await countOf(admin, 'select from least.outbox_messages')).toBe(1)
    for (const text of ['select from', 'delete from'].map((to) => `${to} least.outbox_messages`)) {
      await expect(countOf(roles.billing, text)).rejects.toMatchObject({ code: '42501' })
    }
  })

  it('leaves the messages to the role of relays, which publishes them and can do nothing else', async () => {
    await scenario()
    await admin.query('delete from least.outbox_messages')
    await admin.query(`insert into least.outbox_messages (bucket, message_id, destination, key, envelope, payload)
      select 0, 'm-' || n, 'a', 'k', '{"headers":{},"source":"s","type":"t","isJson":true}', '1' from generate_series(1, 2) n`)
    const published: string[] = []
    const publish: Destination['publish'] = async (messages) => {
      // Refused once, so that it waits and holds the one behind it.
      const isRefused = published.length === 0
      published.push(...messages.map(({ id }) => id))
      return messages.map(() => (isRefused ? { refused: new Error('no') } : undefined))
    }
    const options = { schema: 'least', destinations: { a: { batch: 1, publish } }, logger: silent }
    await using relay = await startRelay({ pool: roles.relay, ...options })
    await until(async () => (await countOf(admin, 'table least.outbox_messages')) === 0)
    expect(published).toEqual(['m-1', 'm-1', 'm-2'])
    await relay.figures()
    for (const text of [
      'table least.processed_events',
      "update least.outbox_messages set payload = ''",
      `insert into least.outbox_messages (bucket, message_id, destination, envelope, payload) values (0, '', '', '', '')`,
    ])
      await expect(roles.relay.query(text)).rejects.toMatchObject({ code: '42501' })
  })

  const other = "(select id from least.consumers where name = 'mailing')"
  it.each([
    [
      'another consumer’s event as done',
      `insert into least.processed_events (event_id, fingerprint, consumer_id) values (gen_random_uuid(), 0, ${other})`,
    ],
    [
      'its row to another consumer',
      `update least.processed_events set consumer_id = ${other} where consumer_id = any (least.my_consumers())`,
    ],
    [
      'a failure for another consumer',
      `insert into least.failed_events (event_id, consumer_id, attempt, key) values (gen_random_uuid(), ${other}, 1, 'k')`,
    ],
    [
      'a result for another consumer’s event',
      "insert into least.event_results values (gen_random_uuid(), '{}')",
    ],
    [
      'a consumer for another login',
      "insert into least.consumers (name, dedup_window_ms, fingerprint_rule, owner) values ('x', 1, 1, 'postgres')",
    ],
    ['a consumer to another login', 'update least.consumers set owner = session_user'],
    ['the name of a consumer', "update least.consumers set name = 'mailing'"],
    ['the secret', "update least.settings set secret = ''"],
    ['the epoch', 'update least.settings set epoch = gen_random_uuid()'],
    ['the epoch by function', 'select least.forget_history()'],
    ['that the clock is right', 'select least.trust_clock()'],
    [
      'the audit',
      "insert into least.audit (action, target, consumer_id) values ('replay', gen_random_uuid(), 1)",
    ],
    ['tables', 'create table least.mine (x int)'],
    ['the policies', 'alter table least.failed_events disable row level security'],
    ['the migrations', 'delete from least.migrations'],
  ])('is refused to write %s', async (_what, text) => {
    const { billing } = await scenario()
    await new Steps(billing, async () => undefined).commit(fresh(newEvent()))
    await expect(roles.billing.query(text)).rejects.toThrow(
      /permission denied|row-level security|must be owner/,
    )
  })

  it('publishes its dead letters', async () => {
    const { billing } = await scenario()
    const event = newEvent()
    await new Steps(billing, async () => undefined).buried(event)
    const ref = { kind: 'event', id: event.id } as const
    expect(await billing.takePublishing(ref, 1_000)).toMatchObject({ kind: 'taken' })
  })

  it('sees of the audit what was done to its own consumers', async () => {
    await scenario()
    await admin.query(
      "insert into least.audit (who, action, target, consumer_id) select name, 'pause', gen_random_uuid(), id from least.consumers",
    )
    const of = "select from least.audit where action = 'pause' and who"
    expect(await countOf(roles.billing, `${of} = 'billing'`)).toBe(1)
    expect(await countOf(roles.billing, `${of} <> 'billing'`)).toBe(0)
  })

  it('sees the ids of the others’ events, and their names and windows', async () => {
    await scenario()
    expect(await countOf(roles.billing, 'table least.processed_events')).toBe(2)
    expect(await countOf(roles.billing, 'table least.consumers')).toBe(2)
    expect(await countOf(roles.billing, 'table least.settings')).toBe(1)
  })

  it('is refused a consumer of another login, and told so', async () => {
    await scenario()
    const opening = pgInbox(roles.billing, { schema: 'least' }).open(
      registration(systemRuntime, { consumer: 'mailing' }),
    )
    await expect(opening).rejects.toThrow(ConfigurationError)
    await expect(opening).rejects.toThrow(/mailing belongs to another login .*owner/)
  })

  it('has what the logins that it belongs to have', async () => {
    await scenario()
    const { billing, mailing } = roles.logins
    await admin.query(`grant ${mailing} to ${billing}`)
    const session = await pgInbox(roles.billing, { schema: 'least' }).open(
      registration(systemRuntime, { consumer: 'mailing' }),
    )
    expect(await countOf(roles.billing, 'table least.failed_events')).toBe(1)
    await session.sweep()
    await admin.query(`revoke ${mailing} from ${billing}`)
    expect(await countOf(roles.billing, 'table least.failed_events')).toBe(0)
  })

  it('sweeps what is older than its consumer’s window, the results too, and nothing younger', async () => {
    const { billing, theirs } = await scenario()
    expect(await billing.sweep()).toMatchObject({ deleted: 0 })
    await passTime(admin, 'least', WINDOW_MS + 1)
    expect(await billing.sweep()).toMatchObject({ deleted: 1 })
    const left = await admin.query('select event_id from least.processed_events')
    expect(left.rows).toEqual([{ event_id: theirs.dead }])
    expect(await countOf(admin, 'table least.event_results')).toBe(0)
  })

  it('leases events with postgresLeases', async () => {
    await scenario()
    const leases = postgresLeases(roles.billing, { schema: 'least' })
    const [held, ended] = [newClaim(), newClaim()]
    expect(await leases.claim([held, ended])).toMatchObject([{ attempt: 1 }, { attempt: 1 }])
    expect(await leases.complete([ended], 1_000)).toEqual(['held'])
    expect(await leases.release([held])).toEqual(['held'])
  })

  it('reads the identity of the history', async () => {
    const { billing } = await scenario()
    expect(await billing.identity()).toMatch(/^\d+\.[0-9A-F]{8}\.[\d.]+\.[0-9a-f-]{36}$/)
  })
})

// Red when only the first claim finds out: every event would be deferred for ever.
it('refuses a login whose row_security is off, because PostgreSQL would refuse every claim', async () => {
  await scenario()
  const login = roles.logins.billing
  await admin.query(`alter role ${login} set row_security = off`)
  const { rows } = await admin.query(
    "select current_setting('port') as port, current_database() as name",
  )
  const connectionString = `postgres://${login}@127.0.0.1:${rows[0].port}/${rows[0].name}`
  const pool = new pg.Pool({ connectionString, max: 4 })
  const opening = pgInbox(pool, { schema: 'least' }).open(
    registration(systemRuntime, { consumer: 'billing', dedupWindowMs: WINDOW_MS }),
  )
  await expect(opening).rejects.toThrow(ConfigurationError)
  await expect(opening).rejects.toThrow('`row_security` is off')
  await pool.end()
  await admin.query(`alter role ${login} reset row_security`)
})
