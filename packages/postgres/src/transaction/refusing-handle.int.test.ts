import { DeadlineExceededError } from '@onceward/core'
import { database, until } from '@onceward/testing'
import { fresh, newEvent } from '@onceward/testing/conformance'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  CLIENTS,
  NOTHING,
  type TestClient,
  type TestSession,
  useWholePool,
} from '../fixtures/clients.ts'
import { migrate } from '../operators/migrate.ts'

const INSERT = 'insert into charges values ($1)'

/** The server's own words tell a cancel from the timeout of the session, which has the same code. */
const CANCELLED = { code: '57014', message: expect.stringContaining('due to user request') }
const TIMED_OUT = { code: '57014', message: expect.stringContaining('due to statement timeout') }

describe.each(CLIENTS)('the handle of a transaction over $name', ({ make, name }) => {
  let client: TestClient
  let pool: pg.Pool
  let session: TestSession

  beforeAll(async () => {
    // An idle connection stays, so that only a discarded one leaves the pool.
    client = make({ connectionString: (await database()).url, idleTimeoutMillis: 0 })
    pool = client.pool
    await migrate(pool)
    await pool.query('create table charges (id uuid primary key)')
    session = await client.open()
  })
  // However a transaction ends, its connection and its slot are free again.
  afterEach(() => useWholePool(session, client))
  afterAll(() => client.close())

  const charged = async (id: string): Promise<boolean> =>
    (await pool.query('select from charges where id = $1', [id])).rowCount === 1

  /** Backends of this database that are not idle, without this query. */
  const busy = async (): Promise<number> => {
    const { rows } = await pool.query(
      "select count(*)::int as n from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()",
    )
    return rows[0].n
  }

  /** Whether the server runs the sleep: a cancel that comes before the statement has begun changes nothing. */
  const isSleeping = async (): Promise<boolean> => {
    const { rows } = await pool.query(
      "select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'",
    )
    return rows[0].n === 1
  }

  const idleAgain = (): Promise<boolean> =>
    until(async () => (await busy()) === 0 && pool.idleCount === pool.totalCount)

  it.each([
    'commit',
    'COMMIT;',
    '/* done */ rollback',
    'select 1; end',
    'commit and chain',
    "prepare transaction 'x'",
  ])('refuses %j, and the transaction continues', async (text) => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(INSERT, [event.id])
    await expect(run(text)).rejects.toMatchObject({
      code: 'ONCEWARD_RETRYABLE',
      message: expect.stringContaining('savepoint'),
    })
    expect(transaction.status()).toBe('open')
    expect(await charged(event.id)).toBe(false)
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    expect(await charged(event.id)).toBe(true)
  })

  // The clients of ORMs begin transactions of their own on a client of pg: nested-transactions.int.test.ts. Kysely's do not.
  it.runIf(name === 'kysely').each(['begin', 'start transaction'])('refuses %j', async (text) => {
    const { transaction, run } = await session.begun(newEvent())
    await expect(run(text)).rejects.toMatchObject({ code: 'ONCEWARD_RETRYABLE' })
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
  })

  it('does not let a DO block or a procedure end the transaction', async () => {
    const { transaction, run } = await session.begun(newEvent())
    await expect(run('do $$ begin commit; end $$')).rejects.toMatchObject({ code: '2D000' })
    expect(transaction.status()).toBe('failed')
    await transaction.rollback()
  })

  it('refuses all statements after the commit and after the rollback', async () => {
    const [committed, undone] = [await session.begun(newEvent()), await session.begun(newEvent())]
    await committed.transaction.commit(NOTHING)
    await undone.transaction.rollback()
    for (const { run } of [committed, undone]) {
      await expect(run('select 1')).rejects.toMatchObject({ code: 'ONCEWARD_RETRYABLE' })
    }
    await idleAgain()
  })

  it('acceptance A6: cancels a running statement at the deadline and refuses later ones, and no row stays', async () => {
    // Red when the handle only forgets the transaction: the handler goes on writing on the pooled connection. Red too
    // when nothing is cancelled and the statement runs into its timeout.
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(INSERT, [event.id])
    const sleeping = run('select pg_sleep(60)').catch((error: unknown) => error)
    const queued = run(INSERT, [newEvent().id]).catch((error: unknown) => error)
    await until(isSleeping)
    const error = new DeadlineExceededError('too late')
    transaction.revoke(error)
    await expect(run(INSERT, [newEvent().id])).rejects.toBe(error)
    expect(await sleeping).toMatchObject(CANCELLED)
    const failure = { event, attempt: 1, error, delayMs: 0 }
    expect(await transaction.rollbackAndFail([failure])).toEqual(['recorded'])
    expect(await queued).toBeInstanceOf(Error)
    await expect(run(INSERT, [newEvent().id])).rejects.toBe(error)
    await idleAgain()
    expect((await pool.query('select from charges where id = $1', [event.id])).rowCount).toBe(0)
  })

  // Red when the connection goes back to the pool: what the handler left on it would meet the next event.
  it.each(['commit', 'rollback'] as const)(
    'discards its connection if it is revoked between two statements, at the %s',
    async (end) => {
      const event = newEvent()
      const { transaction, run } = await session.begun(event)
      await run(INSERT, [event.id])
      const removed: unknown[] = []
      const hear = (gone: unknown): void => void removed.push(gone)
      pool.on('remove', hear)
      const error = new DeadlineExceededError('too late')
      transaction.revoke(error)
      if (end === 'rollback') await transaction.rollback()
      else expect(await transaction.commit(NOTHING)).toEqual({ kind: 'rolled-back', error })
      await expect(run('select 1')).rejects.toBe(error)
      expect(await charged(event.id)).toBe(false)
      await idleAgain()
      await until(() => removed.length > 0, { deadlineMs: 10_000 })
      expect(removed).toHaveLength(1)
      pool.off('remove', hear)
    },
  )

  it('executes statements that the handler did not await before the commit', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    const forgotten = [run('select pg_sleep(0.05)'), run(INSERT, [event.id])]
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    await Promise.all(forgotten)
    expect(await charged(event.id)).toBe(true)
  })

  it('rolls back if a statement fails that the handler did not await', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(INSERT, [event.id])
    run('select pg_sleep(0.05), 1 / 0').catch(() => undefined)
    expect(await transaction.commit(NOTHING)).toMatchObject({ kind: 'rolled-back' })
    expect(await charged(event.id)).toBe(false)
  })

  it('cancels statements that are still running when the handler fails', async () => {
    // Red when the rollback waits behind the statement until that runs into its timeout.
    const { transaction, run } = await session.begun(newEvent())
    const sleeping = run('select pg_sleep(60)').catch((error: unknown) => error)
    await until(isSleeping)
    await transaction.rollback()
    expect(await sleeping).toMatchObject(CANCELLED)
    await idleAgain()
  })

  it('cancels a hung statement when the budget is over, and its event can be claimed again', async () => {
    const event = newEvent()
    const { transaction, run } = await session.opened({ ...fresh(event), budgetMs: 300 })
    await expect(run('select pg_sleep(60)')).rejects.toMatchObject(TIMED_OUT)
    await transaction.rollback()
    await (await session.begun(event)).transaction.rollback()
  })

  // Red when the record travels with the ROLLBACK: the server reads the whole text in the encoding that the handler left.
  it('records the text of a failure whatever encoding the handler left', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run("set client_encoding = 'LATIN1'")
    const failure = { event, attempt: 1, error: new Error('é costs 1 €'), delayMs: 0 }
    expect(await transaction.rollbackAndFail([failure])).toEqual(['recorded'])
    const { rows } = await pool.query(
      'select error from onceward.failed_events where event_id = $1',
      [event.id],
    )
    expect(rows).toEqual([{ error: expect.stringContaining('é costs 1 €') }])
  })

  // Red when the result travels with a COMMIT that the server reads in the encoding that the handler left.
  it('stores a result whatever encoding the handler left', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run("set client_encoding = 'LATIN1'")
    const results = new Map([[event.id, '"é costs 1 €"']])
    expect(await transaction.commit({ results, recovered: [] })).toEqual({ kind: 'committed' })
    expect(await session.classify([event])).toMatchObject([{ result: 'é costs 1 €' }])
  })

  it('records a failure on another connection if its own ends meanwhile, which is no outage', async () => {
    // The end may also come when the connection is back in the pool, which says so by an event. Hence the last test.
    pool.on('error', () => undefined)
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    const [backend] = await run('select pg_backend_pid() as pid')
    const ending = pool.query('select pg_terminate_backend($1)', [backend?.['pid']])
    const failure = { event, attempt: 1, error: new Error('declined'), delayMs: 0 }
    expect(await transaction.rollbackAndFail([failure])).toEqual(['recorded'])
    await ending
  })
})
