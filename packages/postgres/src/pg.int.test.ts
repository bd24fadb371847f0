import { StoreUnavailableError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { database, postgres, until } from '@onceward/testing'
import { fresh, newEvent, registration } from '@onceward/testing/conformance'
import pg from 'pg'
import Cursor from 'pg-cursor'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLIENTS, NOTHING, type TestSession } from './fixtures/clients.ts'
import { newEvents } from './fixtures/inbox.ts'
import { migrate } from './operators/migrate.ts'
import { pgInbox } from './pg.ts'

let url: string
let pool: pg.Pool
let session: TestSession

beforeAll(async () => {
  url = (await database()).url
  const client = CLIENTS.find(({ name }) => name === 'pg')!.make({ connectionString: url })
  pool = client.pool
  await migrate(pool)
  await pool.query('create table charges (id uuid primary key)')
  session = await client.open()
})
afterAll(() => pool.end())

async function begin(...events: ReturnType<typeof newEvents>) {
  const { transaction, claimed } = await session.begun(...events)
  return { transaction, claimed, tx: transaction.tx as pg.PoolClient }
}

/** A query object that sends any text, as libraries with their own query objects can. */
function rawQuery(text: string): pg.Submittable & { readonly done: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  const query = {
    done: promise,
    submit: (connection: pg.Connection) => connection.query(text),
    handleCommandComplete: () => undefined,
    handleReadyForQuery: () => resolve(),
    handleError: () => resolve(),
  }
  return query
}

describe("the user's PoolClient", () => {
  it('supports every form of query of pg', async () => {
    const { transaction, tx } = await begin(newEvent())
    expect(tx).toBeInstanceOf(pg.Client)
    expect((await tx.query('select 1 as n')).rows).toEqual([{ n: 1 }])
    expect((await tx.query('select $1::int as n', [2])).rows).toEqual([{ n: 2 }])
    expect(
      (await tx.query({ text: 'select $1::int', values: [3], rowMode: 'array' })).rows,
    ).toEqual([[3]])
    const called = new Promise<unknown>((resolve) =>
      tx.query('select $1::int as n', [4], (_, { rows }) => resolve(rows)),
    )
    expect(await called).toEqual([{ n: 4 }])
    const cursor = tx.query(new Cursor('select n from generate_series(1, 3) n'))
    expect(await cursor.read(2)).toEqual([{ n: 1 }, { n: 2 }])
    await cursor.close()
    const single = tx.query(new pg.Query('select 5 as n'))
    const row = new Promise((resolve) => single.on('row', resolve))
    expect(await row).toEqual({ n: 5 })
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
  })

  // Red when its promise follows another one: V8 then leaves out those that wait for it.
  it('names the function that sent a statement in the stack of its error', async () => {
    const { transaction, tx } = await begin(newEvent())
    async function chargeTheCustomer(): Promise<void> {
      await tx.query('selec 1')
    }
    const error: Error = await chargeTheCustomer().catch((thrown) => thrown)
    await transaction.rollback()
    expect(error.stack).toMatch(/at (async )?chargeTheCustomer \(/)
  })

  it('refuses every form of query of pg once it is over', async () => {
    const { transaction, tx } = await begin(newEvent())
    await transaction.rollback()
    const refused = { code: 'ONCEWARD_RETRYABLE' }
    await expect(tx.query('select 1')).rejects.toMatchObject(refused)
    await expect(tx.query({ text: 'select 1' })).rejects.toMatchObject(refused)
    const called = new Promise((resolve) => tx.query('select 1', (error) => resolve(error)))
    expect(await called).toMatchObject(refused)
    await expect(tx.query(new Cursor('select 1')).read(1)).rejects.toMatchObject(refused)
    const single = tx.query(new pg.Query('select 1'))
    expect(await new Promise((resolve) => single.on('error', resolve))).toMatchObject(refused)
  })

  it('refuses transaction control in cursors and configs too', async () => {
    const { transaction, tx } = await begin(newEvent())
    const refused = { message: expect.stringContaining('savepoint') }
    await expect(tx.query({ text: 'commit' })).rejects.toMatchObject(refused)
    await expect(tx.query(new Cursor('commit')).read(1)).rejects.toMatchObject(refused)
    expect(transaction.status()).toBe('open')
    await transaction.rollback()
  })

  it('cannot be released, ended or connected by the handler', async () => {
    const { transaction, tx } = await begin(newEvent())
    expect(() => tx.release()).toThrow(/belongs to onceward/)
    expect(() => tx.end()).toThrow(/belongs to onceward/)
    expect(() => tx.connect()).toThrow(/belongs to onceward/)
    expect(await transaction.commit(NOTHING)).toEqual({ kind: 'committed' })
  })

  it('stays refused when its connection serves another event', async () => {
    const small = CLIENTS[0]!.make({ connectionString: url, max: 3 })
    const guard = await small.open({}, { concurrency: 1 })
    const first = await guard.begun(newEvent())
    const pids = [(await first.run('select pg_backend_pid() as pid'))[0]]
    await first.transaction.commit(NOTHING)
    const second = await guard.begun(newEvent())
    pids.push((await second.run('select pg_backend_pid() as pid'))[0])
    expect(pids[0]).toEqual(pids[1])
    await expect(first.run('select 1')).rejects.toMatchObject({ code: 'ONCEWARD_RETRYABLE' })
    await second.transaction.commit(NOTHING)
    await small.close()
  })

  it('cannot be committed while a cursor is open', async () => {
    const event = newEvent()
    const { transaction, run } = await session.opened({ ...fresh(event), budgetMs: 300 })
    await run('insert into charges values ($1)', [event.id])
    const tx = transaction.tx as pg.PoolClient
    const cursor = tx.query(new Cursor('select n from generate_series(1, 9) n'))
    await cursor.read(1)
    expect(await transaction.commit(NOTHING)).toMatchObject({
      kind: 'rolled-back',
      error: { message: expect.stringContaining('cursor') },
    })
    expect((await pool.query('select from charges where id = $1', [event.id])).rowCount).toBe(0)
  })

  // Red when the record is sent behind the cursor, which waits for ever: that looks like an outage of the store.
  it('may leave a cursor open when it fails: the failure is recorded', async () => {
    const event = newEvent()
    const { transaction, tx } = await begin(event)
    await tx.query(new Cursor('select n from generate_series(1, 9) n')).read(1)
    const failure = { event, attempt: 1, error: new Error('declined'), delayMs: 60_000 }
    expect(await transaction.rollbackAndFail([failure])).toEqual(['recorded'])
    expect(await session.classify([event])).toMatchObject([{ kind: 'waiting', attempt: 1 }])
  })
})

describe('a handler that ends the transaction without the handle', () => {
  it.each(['commit', 'commit; begin', 'rollback; begin', 'commit and chain'])(
    'is detected: %s',
    async (text) => {
      const { transaction, tx } = await begin(newEvent())
      await tx.query(rawQuery(text)).done
      expect(transaction.status()).toBe('ended')
      expect(await transaction.commit(NOTHING)).toMatchObject({
        kind: 'rolled-back',
        error: { message: 'The handler ended the transaction that onceward owns.' },
      })
    },
  )

  it('gets the rows of its unrun events deleted, and no other rows', async () => {
    const [ran, left, troubled] = newEvents(3)
    const { transaction, tx, claimed } = await begin(ran!, left!, troubled!)
    expect(claimed.size).toBe(3)
    await tx.query(rawQuery('commit')).done
    expect(transaction.status()).toBe('ended')
    await transaction.retract([left!, troubled!])
    const [first, second, third] = await session.classify([ran!, left!, troubled!])
    expect([first?.kind, second?.kind, third?.kind]).toEqual(['done', 'absent', 'absent'])
  })

  it('does not get rows deleted that another transaction wrote since', async () => {
    const [ran, left] = newEvents(2)
    const { transaction, tx } = await begin(ran!, left!)
    await tx.query(rawQuery('rollback')).done
    const other = await session.begun(left!)
    await other.transaction.commit(NOTHING)
    await transaction.retract([left!])
    expect(await session.classify([left!])).toMatchObject([{ kind: 'done' }])
  })

  it('returns counted events to their owner without a verdict', async () => {
    const events = [await session.counted(newEvent()), await session.counted(newEvent())]
    const { transaction } = await session.opened({
      claim: { kind: 'counted', events },
      waitMs: 50,
      budgetMs: 5_000,
    })
    await (transaction.tx as pg.PoolClient).query(rawQuery('commit')).done
    await transaction.retract([events[1]!.event])
    expect(await session.classify(events.map(({ event }) => event))).toMatchObject([
      { kind: 'done' },
      { kind: 'running', attempt: 1 },
    ])
    // The effect of the other is committed, though its token is still there: no verdict may run it again.
    const [ran] = events
    const verdict = { ...ran!, attempt: 1, error: 'x' }
    expect(await session.release([{ ...ran!, as: 'given-back' }])).toEqual(['lost'])
    expect(await session.fail([{ ...verdict, delayMs: 0 }])).toEqual(['lost'])
    expect(await session.bury([{ ...verdict, reason: 'fatal' }])).toEqual(['lost'])
    expect(await session.classify([ran!.event])).toMatchObject([{ kind: 'done' }])
  })
})

describe('a pg that users have configured', () => {
  it('may have type parsers of its own, which do not reach the guard', async () => {
    const types = { getTypeParser: () => (value: string) => ({ parsed: value }) }
    const client = CLIENTS[0]!.make({ connectionString: url, max: 3, types: types as never })
    const strangeSession = await client.open({}, { concurrency: 1 })
    const events = newEvents(2)
    const { transaction, run, claimed } = await strangeSession.begun(...events)
    expect(claimed.size).toBe(2)
    expect(await run('select 1 as n')).toEqual([{ n: { parsed: '1' } }])
    await transaction.commit(NOTHING)
    expect(await strangeSession.classify(events)).toMatchObject([
      { kind: 'done' },
      { kind: 'done' },
    ])
    await client.close()
  })

  // Red before: a TypeError at the start, deferred for ever, and a connection that the pool never got back.
  it('is refused at the start if it is one of pg.native', async () => {
    const native = new pg.Pool({ connectionString: url, max: 4 })
    const connect = native.connect.bind(native)
    // The native client has neither of them.
    const hidden = new Set<PropertyKey>(['connection', 'getTransactionStatus'])
    native.connect = (async () =>
      new Proxy(await connect(), {
        get: (client, name) => (hidden.has(name) ? undefined : Reflect.get(client, name)),
      })) as typeof native.connect
    for (let tries = 0; tries < 5; tries += 1) {
      await expect(pgInbox(native).open(registration(systemRuntime))).rejects.toThrow(
        /not `pg.native`/,
      )
    }
    expect(native.idleCount).toBe(native.totalCount)
    await native.end()
  })

  it('gives StoreUnavailableError if its pool was ended', async () => {
    const client = CLIENTS[0]!.make({ connectionString: url, max: 3 })
    const guard = await client.open({}, { concurrency: 1 })
    await client.close()
    await expect(guard.begin(fresh(newEvent()))).rejects.toBeInstanceOf(StoreUnavailableError)
  })

  it('gets its own setting back, even after a reload of the server', async () => {
    await using server = await postgres({ native: true })
    const client = CLIENTS[0]!.make({ connectionString: await server.createDatabase(), max: 3 })
    await migrate(client.pool)
    const guard = await client.open({}, { concurrency: 1 })
    const shown = async (): Promise<unknown> => {
      const { transaction, run } = await guard.begun(newEvent())
      const [row] = await run('show lock_timeout')
      await transaction.rollback()
      return row?.['lock_timeout']
    }
    expect(await shown()).toBe('0')
    await client.pool.query("alter system set lock_timeout = '9s'")
    await client.pool.query('select pg_reload_conf()')
    await until(async () => (await shown()) === '9s', { deadlineMs: 30_000 })
    await client.close()
  })
})
