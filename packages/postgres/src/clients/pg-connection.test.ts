import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { Clock, turn } from '@onceward/testing/adapter'
import { Pool, type PoolClient } from 'pg'
import { describe, expect, it, test, vi } from 'vitest'
import { type Replies, repliesTo, scriptedServer } from '../fixtures/scripted-server.ts'
import { connectForStatements, type Lender, takeConnection } from './pg-connection.ts'

function setUp(replies: Replies = {}, max = 3) {
  const server = scriptedServer(repliesTo(replies))
  const pool = new Pool({ ...server.config, max })
  const clock = new Clock()
  const releaseSlot = vi.fn()
  const lender: Lender = { pool, runtime: clock.runtime, releaseSlot, ownsSessions: false }
  return { server, pool, clock, lender, releaseSlot }
}

type Given = ReturnType<typeof setUp>

/** Other code gives a connection back inside of a transaction, with these statements still running on it. */
async function leaveRunning({ pool }: Given, ...texts: readonly string[]): Promise<void> {
  const client = await pool.connect()
  await client.query('begin')
  for (const text of texts) client.query(text).catch(() => undefined)
  client.release()
}

/** Either way to take a connection of the pool, and to give it back. */
const WAYS: Readonly<Record<string, (given: Given) => Promise<() => void>>> = {
  'a transaction': async ({ lender }) => {
    const held = await takeConnection(lender)
    return () => held.release()
  },
  'short statements': async ({ pool, clock }) => {
    const connection = await connectForStatements(pool, clock.runtime)
    return () => connection.release(false)
  },
}

describe.each(Object.entries(WAYS))('a connection for %s', (name, take) => {
  const slots = name === 'a transaction' ? 1 : 0
  /** Leaves all connections of the pool inside of transactions. */
  async function leave(given: Given): Promise<void> {
    const clients = await Promise.all(Array.from({ length: 3 }, () => given.pool.connect()))
    await Promise.all(clients.map((client) => client.query('begin')))
    for (const client of clients) client.release()
  }

  // Red when it is used: a COMMIT of onceward would commit half of the other code's work.
  it('is not one that other code has left inside of a transaction', async () => {
    const given = setUp()
    await leave(given)
    const giveBack = await take(given)
    const [first, second, third, fresh] = given.server.backends
    await turn()
    expect([first, second, third].map((backend) => backend?.destroyed)).toEqual([true, true, true])
    expect([fresh?.status, fresh?.destroyed]).toEqual(['I', false])
    expect(given.releaseSlot).not.toHaveBeenCalled()
    giveBack()
    expect([given.pool.idleCount, given.pool.totalCount]).toEqual([1, 1])
    expect(given.releaseSlot).toHaveBeenCalledTimes(slots)
  })

  it('is one whose transaction a statement that nobody awaited ends', async () => {
    const given = setUp({ rollback: { hangs: true } })
    const client = await given.pool.connect()
    await client.query('begin')
    void client.query('rollback')
    client.release()
    const taking = take(given)
    await turn()
    given.server.backends[0]?.goOn()
    ;(await taking)()
    expect(given.server.backends.length).toBe(1)
    expect(given.pool.idleCount).toBe(1)
    await given.pool.connect()
    expect(client.listenerCount('error')).toBe(0)
  })

  // Red when it is awaited without a limit, or lent while it still runs.
  it('is not one on which such a statement does not end', async () => {
    const given = setUp({ select: { hangs: true } })
    await leaveRunning(given, 'select')
    const taking = take(given)
    await given.clock.advance(4_999)
    expect(given.server.backends.length).toBe(1)
    await given.clock.advance(1)
    await taking
    expect(given.server.backends.map(({ destroyed }) => destroyed)).toEqual([true, false])
  })

  // Red when only the transaction counts: the statement behind its end would run beside those of onceward.
  it('is not one on which a statement runs behind the end of its transaction', async () => {
    const given = setUp({ rollback: {}, select: { hangs: true } })
    await leaveRunning(given, 'rollback', 'select')
    const taking = take(given)
    await given.clock.advance(5_000)
    await taking
    expect(given.server.backends.map(({ destroyed }) => destroyed)).toEqual([true, false])
  })

  // Red when the process ends: nobody else listens to the client meanwhile.
  it('may be lost while such a statement is awaited', async () => {
    const given = setUp({ select: { hangs: true } })
    await leaveRunning(given, 'select')
    const taking = take(given)
    await turn()
    given.server.backends[0]?.shutDown('57P01')
    await taking
    expect(given.server.backends.length).toBe(2)
  })

  // Red when it is tried for ever: the event would neither end nor be deferred.
  it('is refused where every new one comes inside of a transaction', async () => {
    const given = setUp()
    const verify = (client: PoolClient, done: () => void) =>
      void client.query('begin').then(() => done())
    Object.assign(given.pool.options, { verify })
    await expect(take(given)).rejects.toThrow(
      new StoreUnavailableError(
        'New connections of the pool are inside of a transaction: end it in the hook that begins it.',
      ),
    )
    // Those of the pool, and one that is surely new.
    expect(given.server.backends.length).toBe(4)
    expect(given.releaseSlot).toHaveBeenCalledTimes(slots)
  })

  it.each<[string, unknown, unknown]>([
    ['refuses', new Error('ECONNREFUSED'), StoreUnavailableError],
    ['lends nothing', undefined, ConfigurationError],
    ['lends one that has no connection', { release: vi.fn() }, ConfigurationError],
  ])('is refused with a typed error where the pool %s', async (_, lent, type) => {
    const given = setUp()
    const connect = async () => {
      if (lent instanceof Error) throw lent
      return lent as PoolClient
    }
    vi.spyOn(given.pool, 'connect').mockImplementation(connect as never)
    await expect(take(given)).rejects.toThrow(type as typeof StoreUnavailableError)
    expect(given.releaseSlot).toHaveBeenCalledTimes(slots)
  })

  // Red when the process ends, or when a listener stays after each event.
  it('may be lost between two statements', async () => {
    const given = setUp()
    const giveBack = await take(given)
    await turn()
    const [client] = Reflect.get(given.pool, '_clients') as readonly PoolClient[]
    expect(client?.listenerCount('error')).toBe(1)
    given.server.backends[0]?.shutDown('57P01')
    await turn()
    giveBack()
    await turn()
    expect(given.pool.totalCount).toBe(0)
  })

  it('is left without a listener', async () => {
    const given = setUp()
    for (const _ of ['first', 'again']) (await take(given))()
    const client = await given.pool.connect()
    await turn()
    expect(client.listenerCount('error')).toBe(0)
  })
})

test('a client that cannot tell whether it is in a transaction gets no transaction', async () => {
  const { pool, lender, releaseSlot } = setUp()
  const client = await pool.connect()
  Object.defineProperty(client, 'getTransactionStatus', { value: undefined })
  client.release()
  await expect(takeConnection(lender)).rejects.toThrow(ConfigurationError)
  expect(releaseSlot).toHaveBeenCalledTimes(1)
  expect(pool.idleCount).toBe(1)
})
