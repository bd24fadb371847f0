import { systemRuntime } from '@onceward/core'
import { registration } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterEach, describe, expect, it, test, vi } from 'vitest'
import { scriptedServer } from '../fixtures/scripted-server.ts'
import { openOwnPool, poolConfig } from './pg-own-pool.ts'

describe('what pgInbox is given', () => {
  it.each([
    ['settings', { connectionString: 'postgres://db' }],
    ['no settings', {}],
    ['settings without a prototype', Object.assign(Object.create(null), { max: 3 })],
  ])('is taken for a pool of its own where it is %s', (_, value) => {
    expect(poolConfig(value)).toBe(value)
  })

  it.each<[string, unknown]>([
    ...['connect', 'query', 'getExecutor', 'evalsha', 'evalSha', 'open', 'claim', 'then'].map(
      (name): [string, unknown] => [`has ${name}()`, { [name]: () => undefined }],
    ),
    ['is a text', 'postgres://db'],
    ['is null', null],
    ['is undefined', undefined],
    ['is a function', () => undefined],
    ['is a list', []],
    ['is a pool', new pg.Pool()],
    ['is of a class', new URL('postgres://db')],
  ])('is no settings where it %s', (_, value) => {
    expect(poolConfig(value)).toBeUndefined()
  })
})

describe('a pool of the guard’s own', () => {
  const debug = vi.fn()
  const open = (config: pg.PoolConfig, concurrency = 3) => {
    const logger = { ...registration(systemRuntime).logger, debug }
    return openOwnPool(config, registration(systemRuntime, { concurrency, logger }))
  }
  afterEach(() => void vi.useRealTimers())

  it('carries the concurrency of the guard and two spare connections', () => {
    expect(open({}, 14).options).toMatchObject({ max: 16, application_name: 'onceward' })
    expect(open({ max: 5, application_name: 'billing' }).options).toMatchObject({
      ...{ max: 5, application_name: 'billing' },
    })
  })

  it('connects with the settings of the user, whose password is not shown', async () => {
    const server = scriptedServer()
    const pool = open({ ...server.config, password: 'hunter2' })
    const client = await pool.connect()
    expect(client).toMatchObject({ user: 'app', password: 'hunter2', host: 'nowhere' })
    expect(JSON.stringify(pool.options)).not.toContain('hunter2')
  })

  // A connection that a failover leaves unanswered would keep its place for minutes.
  it.each([
    [undefined, 10_000],
    [3_000, 3_000],
  ])('gives up a connection that is not answered: %s', async (connectionTimeoutMillis, ms) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const server = scriptedServer()
    server.isSilent = true
    const given = connectionTimeoutMillis === undefined ? {} : { connectionTimeoutMillis }
    const pool = open({ ...server.config, ...given })
    const refused = vi.fn()
    pool.connect().catch(refused)
    await vi.advanceTimersByTimeAsync(ms - 1)
    expect(refused).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(refused).toHaveBeenCalledTimes(1)
  })

  // Red when nobody listens: the event ends the process.
  it('logs the end of an idle connection', () => {
    const pool = open({})
    pool.emit('error', new Error('Connection terminated unexpectedly'), {} as never)
    expect(debug).toHaveBeenCalledExactlyOnceWith(
      { consumer: 'billing', message: 'Connection terminated unexpectedly' },
      'PostgreSQL ended an idle connection',
    )
  })
})

// As pg's own, whose pools make their clients with settings.
test('its client may be made without settings', () => {
  const { Client } = openOwnPool({}, registration(systemRuntime)).options
  expect(new Client!()).toBeInstanceOf(pg.Client)
})
