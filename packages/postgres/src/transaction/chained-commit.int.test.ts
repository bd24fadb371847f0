import type { BeginRequest, Begun, CommitAnswer, NextBegin } from '@onceward/core/ports'
import { database, proxy, swallowReplyTo, type TcpProxy, until } from '@onceward/testing'
import { fresh, newEvent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  CLIENTS,
  NOTHING,
  type TestClient,
  type TestSession,
  type TestTransaction,
  useWholePool,
} from '../fixtures/clients.ts'
import { newEvents } from '../fixtures/inbox.ts'
import { wireLog } from '../fixtures/wire.ts'
import { migrate } from '../operators/migrate.ts'

const EFFECTS = `create table charges (id uuid primary key);
create table approvals (id uuid primary key, charge uuid references charges deferrable initially deferred)`
// A trigger that waits for a lock at COMMIT.
const GATED = `create table gated (id uuid primary key);
create function wait_for_gate() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(42); return null; end $$;
create constraint trigger waits after insert on gated deferrable initially deferred for each row execute function wait_for_gate()`
const CHARGE = 'insert into charges values ($1)'

/** The next transaction of a guard, as the driver takes it along. */
class Next implements NextBegin<unknown> {
  /** What began behind COMMIT. Undefined: the driver did not ask. */
  answer: Promise<Begun<unknown>> | 'begins by itself' | undefined
  readonly #request: BeginRequest | undefined

  constructor(request: BeginRequest | undefined) {
    this.#request = request
  }

  take(): BeginRequest | undefined {
    return this.#request
  }

  begun(begun: Promise<Begun<unknown>> | undefined): void {
    this.answer = begun ?? 'begins by itself'
  }
}

const GUARDED = CLIENTS.filter(({ name }) => name !== 'kysely')

describe.each(GUARDED)('a commit that begins the next transaction over $name', ({ make }) => {
  const log = wireLog()
  let client: TestClient
  let observer: pg.Pool
  let link: TcpProxy
  let session: TestSession

  beforeAll(async () => {
    const { url } = await database()
    observer = new pg.Pool({ connectionString: url, max: 3 })
    await migrate(observer)
    await observer.query(EFFECTS)
    await observer.query(GATED)
    const { hostname, port } = new URL(url)
    link = await proxy({ host: hostname, port: Number(port) }, { onData: log.onData })
    const through = new URL(url)
    through.host = `${link.host}:${link.port}`
    client = make({ connectionString: through.href, max: 4 })
    session = await client.open({ commitSilenceMs: 5_000 })
  })
  // However a chain ends, its connection and its slot are free again.
  afterEach(async () => {
    link.onData = log.onData
    await useWholePool(session, client)
  })
  afterAll(async () => {
    await client.close()
    await observer.end()
    await link.stop()
  })

  const isDone = async (...ids: readonly string[]): Promise<boolean> => {
    const text = `select from charges join onceward.processed_events on id = event_id where id = any($1) and state = 'd'`
    return (await observer.query(text, [ids])).rowCount === ids.length
  }

  /** Commits a charge, and offers the next transaction. */
  async function commitWith(
    next: Next,
    event = newEvent(),
  ): Promise<{
    readonly answer: CommitAnswer
    readonly id: string
    readonly first: TestTransaction
  }> {
    const first = await session.begun(event)
    await first.run(CHARGE, [event.id])
    return { answer: await first.transaction.commit(NOTHING, next), id: event.id, first }
  }

  async function openOf({ answer }: Next): Promise<Extract<Begun<unknown>, { kind: 'open' }>> {
    const begun = answer === 'begins by itself' ? undefined : await answer
    if (begun?.kind !== 'open') throw new Error(`expected an open transaction, got ${begun?.kind}`)
    return begun
  }

  it('ends one and begins the other in one round trip, each with its own COMMIT', async () => {
    const event = newEvent()
    await (await session.begun(newEvent())).transaction.rollback()
    log.take()
    const next = new Next(fresh(event))
    const { answer, first, id } = await commitWith(next)
    expect(answer).toEqual({ kind: 'committed' })
    const { claimed, transaction } = await openOf(next)
    expect([...claimed]).toEqual([event.id])
    expect(await isDone(id)).toBe(true)
    // The handle of the one before stays refused, although its connection serves the next.
    await expect(first.run('select 1')).rejects.toThrow('is over')
    await session.over(transaction.tx)(CHARGE, [event.id])
    expect(await isDone(event.id)).toBe(false)
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
    expect(await isDone(event.id)).toBe(true)
    const trips = log.take()
    expect(trips).toHaveLength(5)
    expect(trips[2]).toMatch(/; commit; begin .*; insert into .*processed_events/)
  })

  it('begins a transaction for several events', async () => {
    const events = newEvents(3)
    const next = new Next(fresh(...events))
    await commitWith(next)
    const { claimed, transaction } = await openOf(next)
    expect([...claimed].sort()).toEqual(events.map(({ id }) => id).sort())
    await transaction.rollback()
  })

  it('begins one after the other on a connection, which goes back from time to time', async () => {
    const first = await session.begun(newEvent())
    let { transaction } = first
    let links = 0
    for (;;) {
      const next = new Next(fresh(newEvent()))
      expect(await transaction.commit(NOTHING, next)).toEqual({ kind: 'committed' })
      if (next.answer === undefined) break
      links += 1
      transaction = (await openOf(next)).transaction
    }
    expect(links).toBe(100)
    expect(client.pool.idleCount).toBe(client.pool.totalCount)
  })

  it('answers what is known of an event that is done', async () => {
    const event = newEvent()
    await (await session.begun(event)).transaction.commit(NOTHING)
    const next = new Next(fresh(event))
    const { answer } = await commitWith(next)
    expect(answer).toEqual({ kind: 'committed' })
    expect(await next.answer).toMatchObject({ kind: 'none', done: [{ kind: 'done' }] })
  })

  it('answers the commit, if another transaction holds the row of the next event', async () => {
    const event = newEvent()
    const holder = await session.begun(event)
    const next = new Next({ ...fresh(event), waitMs: 25 })
    const { answer, id } = await commitWith(next)
    expect(answer).toEqual({ kind: 'committed' })
    expect(next.answer).toBe('begins by itself')
    expect(await isDone(id)).toBe(true)
    await holder.transaction.rollback()
  })

  it('begins nothing behind a COMMIT that fails', async () => {
    const [event, failing] = [newEvent(), newEvent()]
    const next = new Next(fresh(event))
    const first = await session.begun(failing)
    await first.run('insert into approvals values ($1, $1)', [failing.id])
    expect(await first.transaction.commit(NOTHING, next)).toMatchObject({ kind: 'rolled-back' })
    expect(next.answer).toBe('begins by itself')
    const { rowCount } = await observer.query(
      'select from onceward.processed_events where event_id = any($1)',
      [[event.id, failing.id]],
    )
    expect(rowCount).toBe(0)
  })

  it('a lost answer leaves the commit unknown, and the next event not begun', async () => {
    const event = newEvent()
    const [next, first] = [new Next(fresh(event)), newEvent()]
    const { run, transaction } = await session.begun(first)
    await run(CHARGE, [first.id])
    link.onData = swallowReplyTo(/; commit; begin/, 1)
    expect(await transaction.commit(NOTHING, next)).toMatchObject({ kind: 'unknown' })
    expect(next.answer).toBe('begins by itself')
    expect(await isDone(first.id)).toBe(true)
    link.onData = log.onData
    // The server gives the row back when it notices that the connection is closed.
    const again = await until(async () => {
      const begun = await session.begin(fresh(event))
      return begun.kind === 'open' && begun
    })
    await again.transaction.rollback()
  })

  it('knows its commit, if the backend ends behind COMMIT', async () => {
    const event = newEvent()
    const holder = await session.begun(event)
    const first = await session.begun(newEvent())
    const [backend] = await first.run('select pg_backend_pid() as pid')
    const next = new Next({ ...fresh(event), waitMs: 5_000 })
    const committing = first.transaction.commit(NOTHING, next)
    await until(async () => {
      const text = `select from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`
      return (await observer.query(text, [backend?.['pid']])).rowCount === 1
    })
    await observer.query('select pg_terminate_backend($1)', [backend?.['pid']])
    expect(await committing).toEqual({ kind: 'committed' })
    expect(next.answer).toBe('begins by itself')
    await holder.transaction.rollback()
  })

  // As a process that is killed then: the server reads the rest of the text, and notices only behind it.
  it.each([
    ['before COMMIT', 'charge'],
    ['between COMMIT and the next claim', 'claim'],
  ] as const)('a text that is cut off %s commits one event and begins none', async (_, at) => {
    const [first, event] = [newEvent(), newEvent()]
    const { run, transaction } = await session.begun(first)
    await run(CHARGE, [first.id])
    const [backend] = await run('select pg_backend_pid() as pid')
    const pid = backend?.['pid']
    const gate = await observer.connect()
    await gate.query('begin')
    if (at === 'claim') {
      const insert = 'insert into onceward.processed_events (event_id, fingerprint, consumer_id)'
      await gate.query(`${insert} select $1, 1, max(id) from onceward.consumers`, [event.id])
    } else await gate.query('select pg_advisory_xact_lock(42)')
    if (at === 'charge') await run('insert into gated values ($1)', [first.id])
    link.onData = (direction, chunk, connection) => {
      if (direction === 'up' && chunk.includes('; commit; begin'))
        connection.notes.set('last', true)
      return 'pass'
    }
    const next = new Next({ ...fresh(event), waitMs: 5_000 })
    const committing = transaction.commit(NOTHING, next)
    const text = `select from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`
    await until(async () => (await observer.query(text, [pid])).rowCount === 1)
    link.cut()
    expect(await committing).toMatchObject({ kind: 'unknown' })
    expect(next.answer).toBe('begins by itself')
    await gate.query('rollback')
    gate.release()
    await until(() => isDone(first.id))
    const again = await until(async () => {
      const begun = await session.begin(fresh(event)).catch(() => undefined)
      return begun?.kind === 'open' && begun
    })
    await again.transaction.rollback()
  })

  it.each([
    ['a handler changed settings', 'set local role none'],
    ['a handler may have changed the encoding', "set client_encoding = 'LATIN1'"],
  ])('begins nothing if %s', async (_, text) => {
    const next = new Next(fresh(newEvent()))
    const { run, transaction } = await session.begun(newEvent())
    await run(text)
    expect(await transaction.commit(NOTHING, next)).toEqual({ kind: 'committed' })
    expect(next.answer).toBeUndefined()
  })

  it('gives the connection to a guard that waits for one', async () => {
    const other = await client.open()
    const [one, two] = [await session.begun(newEvent()), await session.begun(newEvent())]
    const waiting = other.begun(newEvent())
    const next = new Next(fresh(newEvent()))
    expect(await one.transaction.commit(NOTHING, next)).toEqual({ kind: 'committed' })
    expect(next.answer).toBeUndefined()
    await (await waiting).transaction.rollback()
    await two.transaction.rollback()
  })
})
