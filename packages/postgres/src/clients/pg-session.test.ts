import { turn } from '@onceward/testing/adapter'
import { Client, type PoolClient } from 'pg'
import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest'
import { settingsRow } from '../fixtures/claim-server.ts'
import { openHeld } from '../fixtures/held-connection.ts'
import { scriptedServer } from '../fixtures/scripted-server.ts'
import { takeConnection } from './pg-connection.ts'
import { sessionOf } from './pg-session.ts'

/** A connected client, and what onceward knows about it. */
async function connected() {
  const server = scriptedServer()
  const client = new Client(server.config) as PoolClient
  await client.connect()
  return { client, session: sessionOf(client) }
}

describe('the settings of a session', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  it('are known once they were read, until other code sends a statement', async () => {
    const { client, session } = await connected()
    expect([session.settings(), session.pid]).toEqual([undefined, undefined])
    session.learn(settingsRow())
    expect(session.settings()).toMatchObject({ lockTimeout: '7s', handlerLockTimeout: '7s' })
    expect([session.pid, session.wire.encoding]).toEqual([1_000, 'UTF8'])
    // Of the handler.
    await client.query('select')
    session.leave(false)
    expect(session.settings()).toBeDefined()
    // Of other code.
    await client.query('select')
    expect(session.settings()).toBeUndefined()
  })

  // Red when they are trusted: the next transaction would have the time limits that a handler has set.
  it('are read again after a handler that may have changed them', async () => {
    const { session } = await connected()
    session.learn(settingsRow())
    session.leave(true)
    expect(session.settings()).toBeUndefined()
  })

  it('are read again after five seconds: the server may have been given others', async () => {
    const { session } = await connected()
    session.learn(settingsRow())
    vi.advanceTimersByTime(5_000)
    expect(session.settings()).toBeDefined()
    vi.advanceTimersByTime(1)
    expect(session.settings()).toBeUndefined()
  })

  // Red when they are trusted: behind a pooler the next transaction runs in another session.
  it('are read for each transaction behind a pooler', async () => {
    const { session } = await connected()
    const learned = session.learn(settingsRow({ pid: '77' }))
    expect(learned.lockTimeout).toBe('7s')
    expect([session.isDirect(), session.settings()]).toEqual([false, undefined])
  })
})

test('a session needs bounds until it has those of a budget that is as long', async () => {
  const { session } = await connected()
  expect(session.needsBound(4_000)).toBe(true)
  const former = session.learn(settingsRow({ pid: '77' }))
  // Behind a pooler it has none, and needs none.
  expect(session.needsBound(4_000)).toBe(false)
  session.bound = { former, budgetMs: 4_000 }
  expect([3_999, 4_000, 4_001].map((ms) => session.needsBound(ms))).toEqual([false, false, true])
})

test('a client has one session', async () => {
  const { client, session } = await connected()
  expect(sessionOf(client)).toBe(session)
  expect(session.isBusy()).toBe(false)
  const running = client.query('select')
  expect(session.isBusy()).toBe(true)
  await running
  await turn()
  expect(session.isBusy()).toBe(false)
})

test('the settings are known to the next transaction on the connection', async () => {
  const { held, lender } = await openHeld()
  held.session.learn(settingsRow())
  await held.send(['rollback'], 1_000)
  held.release()
  expect((await takeConnection(lender)).session.settings()).toBeDefined()
})

describe('the bounds of a session that only onceward uses', () => {
  it('are set once, and the handler gets the lock timeout of the user', async () => {
    const { held, server } = await openHeld({
      ownsSessions: true,
      replies: { 'select pg_catalog.pg_backend_pid': { row: settingsRow() } },
    })
    server.sent.length = 0
    await held.bound({ lockMs: 50, budgetMs: 4_000 })
    expect(server.sent.map((text) => text.split('; ').slice(0, -1))).toEqual([
      [],
      [
        'set lock_timeout = 50',
        'set statement_timeout = 4000',
        'set idle_in_transaction_session_timeout = 4000',
      ],
    ])
    expect(held.session.handlerLockTimeout).toBe('7s')
    expect(held.session.settings()?.handlerLockTimeout).toBe('7s')
    await held.bound({ lockMs: 50, budgetMs: 9_000 })
    expect(server.sent.length).toBe(3)
    expect(held.session.bound?.budgetMs).toBe(9_000)
  })

  it('are not set where the server does not say which session it is', async () => {
    const { held } = await openHeld({ ownsSessions: true })
    vi.spyOn(Client.prototype, 'query').mockResolvedValue([] as never)
    await held.bound({ lockMs: 50, budgetMs: 4_000 })
    vi.restoreAllMocks()
    expect(held.session.bound).toBeUndefined()
  })

  // Behind a pooler the next transaction may run in another session, which would keep the bounds.
  it('are not set behind a pooler', async () => {
    const { held, server } = await openHeld({
      ownsSessions: true,
      replies: { 'select pg_catalog.pg_backend_pid': { row: settingsRow({ pid: '77' }) } },
    })
    server.sent.length = 0
    await held.bound({ lockMs: 50, budgetMs: 4_000 })
    expect(server.sent.length).toBe(1)
    expect([held.session.bound, held.session.handlerLockTimeout]).toEqual([undefined, undefined])
  })

  // Red when the process ends, or when each transaction adds a listener.
  it('are on clients to whose loss onceward listens once, for good', async () => {
    const { held, pool, lender } = await openHeld({ ownsSessions: true })
    const client = held.tx as PoolClient
    await held.send(['rollback'], 1_000)
    held.release()
    const before = client.listenerCount('error')
    const again = await takeConnection(lender)
    again.release()
    expect(client.listenerCount('error')).toBe(before)
    await turn()
    await pool.connect()
    expect(client.listenerCount('error')).toBe(1)
  })
})
