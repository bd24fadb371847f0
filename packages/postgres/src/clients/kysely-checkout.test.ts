import { StoreUnavailableError } from '@onceward/core'
import { turn } from '@onceward/testing/adapter'
import { CompiledQuery } from 'kysely'
import { describe, expect, it, test, vi } from 'vitest'
import { kyselyOnOther, kyselyOnPg } from '../fixtures/kysely.ts'
import type { Backend } from '../fixtures/scripted-server.ts'
import { endWire, takeClean } from './kysely-checkout.ts'
import { surviveLoss } from './kysely-wire.ts'

/** Leaves all connections of the pool inside of transactions. */
async function leave({ pool }: ReturnType<typeof kyselyOnPg>): Promise<void> {
  const clients = await Promise.all(Array.from({ length: 2 }, () => pool.connect()))
  await Promise.all(clients.map((client) => client.query('begin')))
  for (const client of clients) client.release()
}

describe('a connection of Kysely on pg', () => {
  it('comes with the connection of pg below it, and goes back', async () => {
    const { client, pool, server } = kyselyOnPg()
    for (const _ of ['first', 'again']) {
      const { wire, leave } = await takeClean(client)
      expect(wire).toBeDefined()
      expect(pool.idleCount).toBe(0)
      leave()
      await turn()
      expect([pool.idleCount, pool.totalCount]).toEqual([1, 1])
    }
    // Kysely cannot tell whether it is inside of a transaction, so the server is asked, once.
    expect(server.sent).toEqual([''])
  })

  // Red when it is used: a COMMIT of onceward would commit half of the other code's work.
  it('is not one that other code has left inside of a transaction', async () => {
    const given = kyselyOnPg()
    await leave(given)
    const { leave: giveBack } = await takeClean(given.client)
    const [first, second, fresh] = given.server.backends
    expect([first?.destroyed, second?.destroyed, fresh?.destroyed]).toEqual([true, true, false])
    giveBack()
    await turn()
    expect([given.pool.idleCount, given.pool.totalCount]).toEqual([1, 1])
  })

  // Red when it is closed for ever: the statement that Kysely's hook sends says what is wrong.
  it('is one inside of a transaction after 25 that were closed', async () => {
    const given = kyselyOnPg()
    const verify = (lent: { query(text: string): Promise<unknown> }, done: () => void) =>
      void lent.query('begin').then(() => done())
    Object.assign(given.pool.options, { verify })
    await takeClean(given.client)
    expect(given.server.backends.length).toBe(26)
  })

  it('is given up where it does not come, and goes back if it comes late', async () => {
    const { client, pool, clock } = kyselyOnPg({}, 1)
    const taken = await pool.connect()
    const refused = vi.fn()
    takeClean(client).catch(refused)
    await clock.advance(4_999)
    expect(refused).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(refused).toHaveBeenCalledWith(
      new StoreUnavailableError('No connection became free within 5000 ms.'),
    )
    taken.release()
    await turn()
    expect([pool.idleCount, pool.waitingCount]).toEqual([1, 0])
  })

  it('is given up where a statement runs on it that nobody awaits, and goes back', async () => {
    const { client, pool, clock } = kyselyOnPg({ select: { hangs: true } })
    const other = await pool.connect()
    other.query('select').catch(() => undefined)
    other.release()
    const refused = vi.fn()
    takeClean(client).catch(refused)
    await clock.advance(4_999)
    expect([refused.mock.calls, pool.idleCount]).toEqual([[], 0])
    await clock.advance(1)
    expect(refused).toHaveBeenCalledWith(
      new StoreUnavailableError(
        'A connection of the pool did not answer for 5000 ms: await every statement on it, or check the network.',
      ),
    )
    expect(pool.idleCount).toBe(1)
  })

  it('is given up where its first answer does not come, and goes back', async () => {
    const { client, server, pool, clock } = kyselyOnPg({ '': { hangs: true } })
    const refused = vi.fn()
    takeClean(client).catch(refused)
    await clock.advance(4_999)
    expect([server.sent, refused.mock.calls]).toEqual([[''], []])
    await clock.advance(1)
    expect(refused).toHaveBeenCalledTimes(1)
    expect([pool.idleCount, clock.timers]).toEqual([1, 0])
  })

  // Red when the process ends: Kysely does not listen to its clients.
  it.each<[string, (backend: Backend) => void]>([
    ['with an error of the server', (backend) => backend.shutDown('57P01')],
    ['without a word', (backend) => backend.destroy()],
  ])('may be lost %s while its first answer is awaited', async (_, lose) => {
    const { client, server, pool } = kyselyOnPg({ '': { hangs: true } })
    const taking = takeClean(client)
    await turn()
    lose(server.backends[0]!)
    const { connection, leave: giveBack, wire } = await taking
    const undo = surviveLoss(wire!)
    await expect(connection.executeQuery(CompiledQuery.raw('select'))).rejects.toThrow()
    await turn()
    giveBack()
    undo()
    await turn()
    expect(pool.totalCount).toBe(0)
  })

  it('that cannot be had is an outage', async () => {
    const { client, pool } = kyselyOnPg()
    await pool.end()
    await expect(takeClean(client)).rejects.toMatchObject({
      ...{ code: 'ONCEWARD_STORE_UNAVAILABLE', message: expect.stringContaining('connecting') },
    })
  })
})

describe('a connection of another client', () => {
  it('has no connection of pg, and is asked nothing', async () => {
    const { client, sent, lent } = kyselyOnOther()
    const { wire, leave, connection } = await takeClean(client)
    expect([wire, sent, lent]).toEqual([undefined, [], { taken: 1, released: 0 }])
    await connection.executeQuery({ sql: 'select' } as never)
    leave()
    await turn()
    expect(lent).toEqual({ taken: 1, released: 1 })
  })

  // Callers queue for it behind whole handlers.
  it.each([
    [true, 60_000],
    [false, 5_000],
  ])('is waited for longer where there is only one: %s', async (isSingle, ms) => {
    const { client, clock } = kyselyOnOther(undefined, { isSingle })
    const executor = client.db.getExecutor()
    vi.spyOn(executor, 'provideConnection').mockReturnValue(new Promise(() => undefined))
    vi.spyOn(client.db, 'getExecutor').mockReturnValue(executor)
    const refused = vi.fn()
    takeClean(client).catch(refused)
    await clock.advance(ms - 1)
    expect(refused).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(refused).toHaveBeenCalledTimes(1)
  })
})

test('a connection that has ended already is left at once', async () => {
  const { client, server } = kyselyOnPg()
  const { wire } = await takeClean(client)
  surviveLoss(wire!)
  const left = vi.fn()
  endWire(wire!, left)
  // Red when it goes back before pg knows: its pool would lend it again.
  expect(left).not.toHaveBeenCalled()
  await turn()
  expect([left.mock.calls.length, server.backends[0]?.destroyed]).toEqual([1, true])
  endWire(wire!, left)
  expect(left).toHaveBeenCalledTimes(2)
})
