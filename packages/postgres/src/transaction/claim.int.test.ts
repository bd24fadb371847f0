import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { database, until } from '@onceward/testing'
import { fresh, newEvent } from '@onceward/testing/conformance'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLIENTS, NOTHING, type TestClient, type TestSession } from '../fixtures/clients.ts'
import { lockWaiters, newEvents } from '../fixtures/inbox.ts'
import { migrate } from '../operators/migrate.ts'

// Bounds of waits, ms: far below the time at which a wait without a bound would end these tests.
const WAIT_MS = 60
const BUDGET_MS = 20_000

const SETTINGS = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout']

describe.each(CLIENTS)('a claim over $name', ({ make, name }) => {
  let url: string
  let client: TestClient
  let pool: pg.Pool
  let session: TestSession

  beforeAll(async () => {
    url = (await database()).url
    client = make({ connectionString: url })
    pool = client.pool
    await migrate(pool)
    session = await client.open()
  })
  afterAll(() => client.close())

  /** Another transaction, in the middle of the same events. */
  async function inFlight(...ids: readonly string[]): Promise<() => Promise<void>> {
    const other = await pool.connect()
    await other.query('begin')
    for (const id of ids) {
      await other.query(
        'insert into onceward.processed_events (event_id, fingerprint, consumer_id) values ($1, 1, 1)',
        [id],
      )
    }
    return async () => {
      await other.query('rollback')
      other.release()
    }
  }

  it('waits at most its bound for an event in flight, and leaves nothing open', async () => {
    const event = newEvent()
    const end = await inFlight(event.id)
    const request = { ...fresh(event), waitMs: WAIT_MS }
    expect(await session.begin(request)).toEqual({ kind: 'held' })
    await end()
    const { transaction } = await session.begun(event)
    await transaction.rollback()
  })

  it('keeps its connection if it opened no transaction', async () => {
    const [done, busy] = [newEvent(), newEvent()]
    await (await session.begun(done)).transaction.commit(NOTHING)
    const end = await inFlight(busy.id)
    let removed = 0
    pool.on('remove', () => {
      removed += 1
    })
    expect(await session.begin(fresh(done))).toMatchObject({ kind: 'none' })
    expect(await session.begin({ ...fresh(busy), waitMs: WAIT_MS })).toEqual({ kind: 'held' })
    await end()
    await until(() => pool.idleCount === pool.totalCount)
    expect(removed).toBe(0)
  })

  it('bounds the wait for each of several rows, not only for the first', async () => {
    // Red when the bound is put back in `returning`, so gone after the first row.
    const [first, second] = newEvents(2).toSorted((a, b) => (a.id < b.id ? -1 : 1))
    const end = await inFlight(second!.id)
    const request = { ...fresh(first!, second!), waitMs: WAIT_MS }
    expect(await session.begin(request)).toEqual({ kind: 'held' })
    await end()
  })

  it('bounds the wait for a table lock', async () => {
    const other = await pool.connect()
    await other.query('begin; lock table onceward.processed_events in access exclusive mode')
    expect(await session.begin({ ...fresh(newEvent()), waitMs: WAIT_MS })).toEqual({ kind: 'held' })
    await other.query('rollback')
    other.release()
  })

  // Red without the cancel: each copy leaves a backend behind for as long as the table is locked, up to max_connections.
  // Kysely does not tell the process of a claim that takes nothing, so there is nothing to cancel.
  it.skipIf(name === 'kysely')('leaves no backend behind that waits for the table', async () => {
    const setTimer: typeof systemRuntime.setTimer = (call, ms, options) =>
      systemRuntime.setTimer(call, ms === 10_000 ? 100 : ms, options)
    const hasty = await client.open({}, { runtime: { ...systemRuntime, setTimer } })
    const event = newEvent()
    const owner = await session.begun(event)
    const begun = hasty.begin({ ...fresh(event), waitMs: BUDGET_MS })
    await until(async () => (await lockWaiters(pool)) === 1)
    // It gets the table when the claim is rolled back, before the read that follows.
    const other = await pool.connect()
    await other.query('begin')
    const locking = other.query('lock table onceward.processed_events')
    await until(async () => (await lockWaiters(pool)) === 2)
    await owner.transaction.commit(NOTHING)
    expect(await begun).toEqual({ kind: 'none' })
    await locking
    await until(async () => (await lockWaiters(pool)) === 0)
    await other.query('rollback')
    other.release()
  })

  it('claims nothing while the table of an event that was seen done is locked', async () => {
    const done = newEvent()
    await (await session.begun(done)).transaction.commit(NOTHING)
    const other = await pool.connect()
    await other.query('begin; lock table onceward.processed_events')
    const request = { ...fresh(done), waitMs: WAIT_MS, budgetMs: 4_000, likelyDone: true }
    expect((await session.begin(request)).kind).not.toBe('open')
    await until(async () => (await lockWaiters(pool)) === 0)
    await other.query('rollback')
    other.release()
  })

  it('takes over at once an event whose transaction is rolled back', async () => {
    const event = newEvent()
    const end = await inFlight(event.id)
    const begun = session.opened({ ...fresh(event), waitMs: BUDGET_MS })
    await until(async () => (await lockWaiters(pool)) === 1)
    await end()
    const { transaction, claimed } = await begun
    expect(claimed).toEqual(new Set([event.id]))
    await transaction.rollback()
  })

  it('trap T12: waits in bounded time for a running event, and does not drain the pool', async () => {
    // Red without a bound: twelve claims hold every connection until the owner ends.
    const event = newEvent()
    const { transaction } = await session.begun(event)
    const request = { ...fresh(event), waitMs: WAIT_MS }
    const answers = await Promise.all(Array.from({ length: 12 }, () => session.begin(request)))
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(['held']))
    const other = await session.begun(newEvent())
    expect(await other.transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
  })

  it('trap T11: under REPEATABLE READ takes nothing of an event that another has finished, and does not fail', async () => {
    // Red when 40001 of the claim is thrown like any error of the store.
    const strict = await client.open({ isolation: 'repeatable read' })
    const event = newEvent()
    const owner = await session.begun(event)
    const late = strict.begin({ ...fresh(event), waitMs: BUDGET_MS })
    await until(async () => (await lockWaiters(pool)) === 1)
    await owner.transaction.commit(NOTHING)
    expect(await late).toMatchObject({ kind: 'none' })
  })

  it('runs the handler at the isolation level of the options', async () => {
    for (const isolation of ['read committed', 'repeatable read', 'serializable'] as const) {
      const { transaction, run } = await (await client.open({ isolation })).begun(newEvent())
      expect(await run('show transaction_isolation')).toEqual([
        { transaction_isolation: isolation },
      ])
      await transaction.rollback()
    }
  })

  it('reports a conflict of two serializable transactions as a serialization failure', async () => {
    const strict = await client.open({ isolation: 'serializable' })
    await pool.query(
      'create table counters (id int primary key, n int); insert into counters values (1, 0), (2, 0)',
    )
    const [one, two] = [await strict.begun(newEvent()), await strict.begun(newEvent())]
    for (const { run } of [one, two]) await run('select sum(n) from counters')
    await one.run('update counters set n = 1 where id = 1')
    await two.run('update counters set n = 1 where id = 2')
    expect(await one.transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    const answer = await two.transaction.commit(NOTHING)
    expect(answer.kind).toBe('rolled-back')
    if (answer.kind !== 'rolled-back') return
    expect(strict.diagnose(answer.error)).toBe('serialization')
    expect(strict.diagnose(new Error('wrapped', { cause: answer.error }))).toBe('serialization')
  })

  it('refuses an unknown isolation level at once', async () => {
    const isolation = 'chaos' as 'serializable'
    await expect(client.open({ isolation })).rejects.toBeInstanceOf(ConfigurationError)
  })

  it.each([1, 3])(
    'bounds the handler by the rest of the deadline, and restores its lock_timeout (%i)',
    async (count) => {
      const options = '-c lock_timeout=7s -c statement_timeout=3s'
      const bounded = make({ connectionString: url, options, max: 3 })
      const guard = await bounded.open({}, { concurrency: 1 })
      // Twice: the second time the settings of the connection are known.
      for (let time = 0; time < 2; time += 1) {
        const { transaction, run } = await guard.opened({
          ...fresh(...newEvents(count)),
          budgetMs: BUDGET_MS,
        })
        const shown = []
        for (const name of SETTINGS) shown.push((await run(`show ${name}`))[0]?.[name])
        await transaction.rollback()
        expect(shown).toEqual(['7s', '3s', '20s'])
      }
      await bounded.close()
    },
  )

  it.each([
    ['off', 'on'],
    ['local', 'local'],
    ['on', 'on'],
  ])('makes a commit durable if synchronous_commit is %s', async (before, inForce) => {
    const lax = make({ connectionString: url, options: `-c synchronous_commit=${before}`, max: 3 })
    const guard = await lax.open({}, { concurrency: 1 })
    for (let time = 0; time < 2; time += 1) {
      const { transaction, run } = await guard.begun(newEvent())
      expect(await run('show synchronous_commit')).toEqual([{ synchronous_commit: inForce }])
      await transaction.commit(NOTHING)
    }
    expect((await lax.pool.query('show synchronous_commit')).rows[0]).toEqual({
      synchronous_commit: before,
    })
    await lax.close()
  })

  it('opens a transaction without a claim for unguarded messages', async () => {
    const begun = await session.begin({
      claim: { kind: 'none' },
      waitMs: WAIT_MS,
      budgetMs: BUDGET_MS,
    })
    expect(begun).toMatchObject({ kind: 'open', claimed: new Set() })
    if (begun.kind === 'open')
      expect(await begun.transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
  })

  it('gives an error that says what to do if tables or rights are missing', async () => {
    await pool.query('create role clerk login; create schema other')
    const clerk = new URL(url)
    clerk.username = 'clerk'
    const poor = make({ connectionString: clerk.href, max: 3 })
    await expect(poor.open({}, { concurrency: 1 })).rejects.toThrow(/role/)
    await expect(poor.open({}, { concurrency: 1 })).rejects.toBeInstanceOf(ConfigurationError)
    await expect(client.open({ schema: 'other' })).rejects.toThrow(/migrate/)
    await poor.close()
    await pool.query('drop role clerk')
  })

  it('gives StoreUnavailableError if there is no server', async () => {
    const gone = make({ connectionString: 'postgres://nobody@127.0.0.1:1/none', max: 3 })
    await expect(gone.open({}, { concurrency: 1 })).rejects.toBeInstanceOf(StoreUnavailableError)
    await gone.close()
  })
})
