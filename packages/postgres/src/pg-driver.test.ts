import { type BeginRequest, StoreUnavailableError } from '@onceward/core'
import { Clock, turn } from '@onceward/testing/adapter'
import { fresh, newEvent } from '@onceward/testing/conformance'
import { Pool, type PoolClient } from 'pg'
import { describe, expect, it, test, vi } from 'vitest'
import { claimServer, opened, settingsRow, takenRow } from './fixtures/claim-server.ts'
import { statements } from './fixtures/scripted-driver.ts'
import type { Reply } from './fixtures/scripted-server.ts'
import { type PgSettings, pgDriver } from './pg-driver.ts'

function setUp(replies: Readonly<Record<string, Reply>> = {}, over: Partial<PgSettings> = {}) {
  const server = claimServer(replies)
  const pool = new Pool({ ...server.config, max: 4 })
  const clock = new Clock()
  const settings = { isolation: 'read committed', commitSilenceMs: 30_000, ...over } as const
  const driver = pgDriver(pool, settings, clock.runtime)
  const context = { statements, consumerId: 5, runtime: clock.runtime }
  const begin = (request: BeginRequest) => driver.begin(request, context)
  return { server, pool, clock, driver, begin }
}

const [one, other] = [newEvent(), newEvent()]

/** The statements of one transaction that is rolled back, up to its handler. */
async function sentFor({ begin, server }: ReturnType<typeof setUp>, request = fresh(one)) {
  server.sent.length = 0
  const transaction = opened(await begin(request))
  const texts = server.sent.flatMap((text) => text.split('; '))
  await transaction.rollback()
  await turn()
  return texts
}

describe('the settings of a session', () => {
  it('are read by its first transaction, and the next ones know them', async () => {
    const given = setUp()
    const first = await sentFor(given)
    expect(first[0]).toBe('begin isolation level read committed read write')
    expect(first[1]).toMatch(/^select before/)
    expect(first.at(-1)).toMatch(/^select pg_catalog.set_config\('lock_timeout'/)
    const second = await sentFor(given)
    expect(second.slice(0, -2)).toEqual([
      'begin isolation level read committed read write',
      'set local lock_timeout = 60',
      'set local statement_timeout = 30000',
      'set local idle_in_transaction_session_timeout = 30000',
    ])
    expect(second.at(-1)).toBe("set local lock_timeout = '7s'")
  })

  // Red when the rows of a batch are not read: none of its events would count as claimed.
  it('do not change what is read of a claim', async () => {
    const replies: Record<string, Reply> = { 'with taken': takenRow(other) }
    const { begin, pool } = setUp(replies)
    const types = { getTypeParser: () => () => 'parsed' }
    pool.on('connect', (client) => void Object.assign(client, { _types: types }))
    for (const _ of ['first', 'again']) {
      const begun = await begin(fresh(one, other))
      expect(begun).toMatchObject({ claimed: new Set([other.id]) })
      await opened(begun).rollback()
      await turn()
      const single = await begin(fresh(one))
      expect(single).toMatchObject({ claimed: new Set([one.id]) })
      await opened(single).rollback()
      await turn()
    }
  })

  // Red when they are read by the parsers of the user: no transaction would know them.
  it('are texts, whatever parsers the user has', async () => {
    const given = setUp()
    const types = { getTypeParser: () => () => 'parsed' }
    given.pool.on('connect', (client) => void Object.assign(client, { _types: types }))
    await sentFor(given)
    expect((await sentFor(given)).at(-1)).toBe("set local lock_timeout = '7s'")
  })

  it('are read anew after other code has used the connection', async () => {
    const given = setUp()
    await sentFor(given)
    await given.pool.query('select 1')
    expect((await sentFor(given))[1]).toMatch(/^select before/)
  })
})

describe('the sessions of a pool that only onceward uses', () => {
  it('get their bounds once, and each transaction only what it needs', async () => {
    const given = setUp({}, { ownsSessions: true })
    const first = await sentFor(given)
    expect(first.slice(1, 4)).toEqual([
      ...['set lock_timeout = 60', 'set statement_timeout = 30000'],
      'set idle_in_transaction_session_timeout = 30000',
    ])
    for (const _ of ['again', 'and again']) {
      const texts = await sentFor(given)
      expect(texts.filter((text) => text.startsWith('set lock_timeout'))).toEqual([])
    }
    const longer = await sentFor(given, { ...fresh(one), budgetMs: 40_000 })
    expect(longer).toContain('set statement_timeout = 40000')
  })

  // Red when the handler gets the bound of the claim: its statements would fail after 60 ms.
  it('give the handler the lock timeout of the user', async () => {
    const given = setUp({}, { ownsSessions: true })
    for (const _ of ['first', 'again']) {
      expect((await sentFor(given)).at(-1)).toBe("set local lock_timeout = '7s'")
    }
    await given.pool.query("set role 'x'")
    expect((await sentFor(given)).at(-1)).toBe("set local lock_timeout = '7s'")
  })

  it('are not bounded on a pool that is shared', async () => {
    const texts = await sentFor(setUp())
    expect(texts.filter((text) => text.startsWith('set '))).toEqual([])
  })

  it('are given up where the server does not answer, and closed', async () => {
    const { begin, clock, pool } = setUp(
      { 'set lock_timeout': { hangs: true } },
      { ownsSessions: true },
    )
    const refused = vi.fn()
    begin(fresh(one)).catch(refused)
    await clock.advance(10_059)
    expect(refused).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(refused).toHaveBeenCalledWith(new StoreUnavailableError('PostgreSQL does not answer.'))
    await turn()
    expect(pool.totalCount).toBe(0)
  })
})

test('the use of the pool is that of all its users', async () => {
  const { pool, driver } = setUp()
  expect(driver.poolUse?.()).toEqual({ used: 0, idle: 0, waiting: 0, size: 4 })
  const clients = await Promise.all([1, 2, 3, 4].map(() => pool.connect()))
  const waiting = pool.connect()
  expect(driver.poolUse?.()).toEqual({ used: 4, idle: 0, waiting: 1, size: 4 })
  for (const client of clients) client.release()
  ;(await waiting).release()
  expect(driver.poolUse?.()).toEqual({ used: 0, idle: 4, waiting: 0, size: 4 })
  expect([driver.poolSize, driver.sendsAtOnce]).toEqual([4, true])
})

// Red when the row without the process is taken: onceward would neither cancel nor know the settings.
test('the settings are those in the row that names the process', async () => {
  const { begin } = setUp({ begin: { row: { a: '1' } } })
  const { tx } = opened(await begin(fresh(one)))
  expect((tx as PoolClient).getTransactionStatus()).toBe('T')
  expect(settingsRow().pid).toBe('1000')
})
