import { CommitUnknownError } from '@onceward/core'
import {
  type CommitAnswer,
  type EventId,
  type IdentifiedEvent,
  systemRuntime,
} from '@onceward/core/ports'
import { database, proxy, swallowReplyTo, type TcpProxy, until } from '@onceward/testing'
import { fresh, newEvent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  CLIENTS,
  NOTHING,
  type TestClient,
  type TestSession,
  useWholePool,
} from '../fixtures/clients.ts'
import { migrate } from '../operators/migrate.ts'

const CHARGES = `create table charges (id uuid primary key, cents int);
create table approvals (id uuid primary key, charge uuid references charges deferrable initially deferred)`
const CHARGE = 'insert into charges values ($1, 1)'

describe.each(CLIENTS)('the end of a transaction over $name', ({ make, name }) => {
  let url: string
  let client: TestClient
  let observer: pg.Pool
  let link: TcpProxy
  let session: TestSession
  /** How much faster than real time the timers run. */
  let speed = 1

  beforeAll(async () => {
    url = (await database()).url
    observer = new pg.Pool({ connectionString: url, max: 3 })
    await migrate(observer)
    await observer.query(CHARGES)
    const { hostname, port } = new URL(url)
    link = await proxy({ host: hostname, port: Number(port) })
    const through = new URL(url)
    through.host = `${link.host}:${link.port}`
    client = make({ connectionString: through.href, max: 6 })
    const setTimer: typeof systemRuntime.setTimer = (callback, delayMs, options) =>
      systemRuntime.setTimer(callback, delayMs / speed, options)
    const runtime = { ...systemRuntime, setTimer }
    session = await client.open({ commitSilenceMs: 1_000 }, { runtime })
  })
  // However a transaction ends, its connection and its slot are free again.
  afterEach(async () => {
    link.onData = undefined
    link.resume()
    speed = 1
    await useWholePool(session, client)
  })
  afterAll(async () => {
    await client.close()
    await observer.end()
    await link.stop()
  })

  async function exists(table: string, id: string): Promise<boolean> {
    const column = table === 'charges' ? 'id' : 'event_id'
    const { rowCount } = await observer.query(`select from ${table} where ${column} = $1`, [id])
    return rowCount === 1
  }

  async function left(event: IdentifiedEvent): Promise<readonly string[]> {
    const tables = [
      'charges',
      'onceward.processed_events',
      'onceward.failed_events',
      'onceward.event_results',
    ]
    const found = await Promise.all(tables.map((table) => exists(table, event.id)))
    return tables.filter((_, index) => found[index])
  }

  it("commits effect, row and result together, and deletes the event's failure record", async () => {
    const event = newEvent()
    const events = [await session.counted(event)]
    const { transaction } = await session.opened({
      claim: { kind: 'counted', events },
      waitMs: 100,
      budgetMs: 10_000,
    })
    const results = new Map([[event.id, JSON.stringify({ note: "it's \\u0000 \\ \ud800" })]])
    expect(await transaction.commit({ results, recovered: [event.id] })).toEqual({
      kind: 'committed',
    })
    expect(await left(event)).toEqual(['onceward.processed_events', 'onceward.event_results'])
    expect(await session.classify([event])).toMatchObject([
      { kind: 'done', result: { note: "it's \\u0000 \\ \ud800" } },
    ])
  })

  // Red before: the result that was left violated its primary key at each commit, and the event was dead-lettered.
  it('stores the new result of an event whose row was deleted by hand', async () => {
    const event = newEvent()
    const commitWith = async (result: string) => {
      const { transaction } = await session.begun(event)
      return transaction.commit({ results: new Map([[event.id, result]]), recovered: [] })
    }
    expect(await commitWith('1')).toEqual({ kind: 'committed' })
    await observer.query('delete from onceward.processed_events where event_id = $1', [event.id])
    expect(await commitWith('2')).toEqual({ kind: 'committed' })
    expect(await session.classify([event])).toMatchObject([{ kind: 'done', result: 2 }])
  })

  it('trap T9: a unique violation of the handler is its failure, not a duplicate', async () => {
    // Red when any 23505 is taken for the row of the event.
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(CHARGE, [event.id])
    const error = await run(CHARGE, [event.id]).catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: '23505' })
    expect(transaction.status()).toBe('failed')
    expect(session.diagnose(error)).toBe('other')
    expect(
      await transaction.rollbackAndFail([{ event, attempt: 1, error, delayMs: 60_000 }]),
    ).toEqual(['recorded'])
    expect(await session.classify([event])).toMatchObject([{ kind: 'waiting', attempt: 1 }])
    expect(await left(event)).toEqual(['onceward.processed_events', 'onceward.failed_events'])
  })

  it('trap T10: commits nothing after a swallowed failure of a statement, and reports that', async () => {
    // Red when neither the transaction's state nor the command tag of COMMIT is checked: PostgreSQL answers COMMIT
    // with ROLLBACK and no error.
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(CHARGE, [event.id])
    await run('select 1 / 0').catch(() => undefined)
    expect(transaction.status()).toBe('failed')
    const answer = await transaction.commit(NOTHING)
    expect(answer).toMatchObject({ kind: 'rolled-back', error: { code: 'ONCEWARD_RETRYABLE' } })
    expect(await left(event)).toEqual([])
  })

  it('continues after a failure that a savepoint rolled back', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run('savepoint before')
    await run('select 1 / 0').catch(() => undefined)
    await run('rollback to savepoint before')
    await run(CHARGE, [event.id])
    expect(transaction.status()).toBe('open')
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    expect(await left(event)).toEqual(['charges', 'onceward.processed_events'])
  })

  it('an error in reply to COMMIT is an ordinary failure', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run('insert into approvals values ($1, $1)', [event.id])
    const answer = await transaction.commit(NOTHING)
    expect(answer).toMatchObject({ kind: 'rolled-back', error: { code: '23503' } })
    const failure = { event, attempt: 1, error: 'no charge', delayMs: 0 }
    expect(await transaction.rollbackAndFail([failure])).toEqual(['recorded'])
    expect(await left(event)).toEqual(['onceward.processed_events', 'onceward.failed_events'])
  })

  it('an error of a statement sent with COMMIT rolls everything back', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(CHARGE, [event.id])
    const results = new Map<EventId, string>([[event.id, '{']])
    const answer = await transaction.commit({ results, recovered: [] })
    expect(answer).toMatchObject({ kind: 'rolled-back', error: { code: '22P02' } })
    expect(await left(event)).toEqual([])
  })

  it('a lost reply to COMMIT makes the outcome unknown, and the row is there', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(CHARGE, [event.id])
    link.onData = swallowReplyTo(/commit/, 1)
    const answer = await transaction.commit(NOTHING)
    expectUnknown(answer)
    expect(await left(event)).toEqual(['charges', 'onceward.processed_events'])
    expect(await session.begin(fresh(event))).toMatchObject({ kind: 'none' })
  })

  it('a COMMIT that never arrives makes the outcome unknown, and the row is missing', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(CHARGE, [event.id])
    link.onData = (direction, chunk) =>
      direction === 'up' && chunk.includes('commit\0') ? 'cut' : 'pass'
    expectUnknown(await transaction.commit(NOTHING))
    expect(await left(event)).toEqual([])
    // The server may not have noticed yet that the connection is closed.
    const again = await until(async () => {
      const begun = await session.begin(fresh(event))
      return begun.kind === 'open' && begun
    })
    await again.transaction.rollback()
  })

  it('silence after COMMIT counts as a lost connection, never as a verdict', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    await run(CHARGE, [event.id])
    link.onData = (direction, chunk, connection) => {
      if (direction === 'up' && chunk.includes('commit')) connection.notes.set('silent', true)
      return direction === 'down' && connection.notes.has('silent') ? 'drop' : 'pass'
    }
    const before = client.pool.totalCount
    expectUnknown(await transaction.commit(NOTHING))
    // Red when it goes back to the pool: whoever gets it waits behind the COMMIT. The pool would close it after ten seconds.
    await until(() => client.pool.totalCount < before, { deadlineMs: 5_000 })
    expect(await left(event)).toEqual(['charges', 'onceward.processed_events'])
  })

  it.each([
    ['is not answered', 'drop'],
    ['does not arrive', 'cut'],
  ] as const)('a claim whose ROLLBACK %s discards its connection', async (_, fate) => {
    const event = newEvent()
    const owner = await session.begun(event)
    link.onData = (direction, chunk, connection) => {
      // The claim is on its way, so from now on only the ROLLBACK is waited for.
      if (direction === 'up' && chunk.includes('processed_events')) speed = 100
      const isRollback = direction === 'up' && chunk.includes('rollback')
      if (isRollback) connection.notes.set('silent', true)
      if (isRollback && fate === 'cut') return 'cut'
      return direction === 'down' && connection.notes.has('silent') ? 'drop' : 'pass'
    }
    expect(await session.begin(fresh(event))).toEqual({ kind: 'held' })
    const before = client.pool.totalCount
    await until(() => client.pool.totalCount < before, { deadlineMs: 30_000 })
    link.onData = undefined
    await owner.transaction.rollback()
  })

  // Over Kysely the record has a COMMIT of its own.
  it.each(name === 'kysely' ? ['rollback', 'commit\0'] : ['rollback'])(
    'a failure whose record is not answered after %j is not recorded, and discards its connection',
    async (last) => {
      const event = newEvent()
      const { transaction } = await session.begun(event)
      link.onData = (direction, chunk, connection) => {
        // The record is on its way, so from now on only its COMMIT is waited for.
        if (direction === 'up' && chunk.includes('failed_events')) speed = 100
        if (direction === 'up' && chunk.includes(last)) connection.notes.set('silent', true)
        return direction === 'down' && connection.notes.has('silent') ? 'drop' : 'pass'
      }
      if (last === 'rollback') speed = 100
      const failure = { event, attempt: 1, error: 'declined', delayMs: 0 }
      await expect(transaction.rollbackAndFail([failure])).rejects.toThrow('could be recorded')
    },
  )

  it('a connection that ends between two statements breaks the transaction, not the process', async () => {
    const event = newEvent()
    const { transaction, run } = await session.begun(event)
    const [backend] = await run('select pg_backend_pid() as pid')
    await observer.query('select pg_terminate_backend($1)', [backend?.['pid']])
    await until(() => transaction.status() === 'broken')
    await expect(run('select 1')).rejects.toThrow()
    const failure = { event, attempt: 1, error: 'lost', delayMs: 0 }
    expect(await transaction.rollbackAndFail([failure])).toEqual(['recorded'])
  })

  it('a backend that is shut down during a statement gives a failure of the store', async () => {
    const { transaction, run } = await session.begun(newEvent())
    const [backend] = await run('select pg_backend_pid() as pid')
    const sleeping = run('select pg_sleep(60)').catch((error: unknown) => error)
    await observer.query('select pg_terminate_backend($1)', [backend?.['pid']])
    expect(session.diagnose(await sleeping)).toBe('store')
    await transaction.rollback()
    const next = await session.begun(newEvent())
    expect(await next.transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
  })

  function expectUnknown(answer: CommitAnswer): void {
    expect(answer.kind).toBe('unknown')
    if (answer.kind === 'unknown') expect(answer.error).toBeInstanceOf(CommitUnknownError)
  }
})
