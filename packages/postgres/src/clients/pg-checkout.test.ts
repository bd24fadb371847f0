import { ConfigurationError, StoreUnavailableError } from '@onceward/core'
import { LATE } from '@onceward/core/adapter'
import { Clock, turn } from '@onceward/testing/adapter'
import { Pool, type PoolClient } from 'pg'
import { describe, expect, it, test, vi } from 'vitest'
import { scriptedServer } from '../fixtures/scripted-server.ts'
import {
  connect,
  hasConnection,
  idle,
  isBusy,
  isInTransaction,
  lentWithin,
  refuseClient,
} from './pg-checkout.ts'

function setUp(max = 2, Own: typeof Pool = Pool) {
  const server = scriptedServer()
  const pool = new Own({ ...server.config, max })
  return { pool, server, clock: new Clock() }
}

class InheritingPool extends Pool {}
class CheckingPool extends Pool {
  override connect(): never {
    return super.connect() as never
  }
}

const longest = (clock: Clock): readonly number[] => clock.asked.map(({ delayMs }) => delayMs)

// Every event takes a connection: a timer for each is what a guard under load can do without.
describe('a connection that comes in the same turn', () => {
  it.each([
    { name: 'pool of pg', Own: Pool },
    { name: 'class that inherits from it', Own: InheritingPool },
  ])('is taken without a timer from a $name', async ({ Own }) => {
    const { pool, clock } = setUp(2, Own)
    ;(await pool.connect()).release()
    for (const _ of ['first', 'again']) (await connect(pool, clock.runtime)).release()
    expect(longest(clock)).toEqual([])
  })
})

// Red when any of them is awaited without a limit: where it does not come, no event of the guard ever ends.
describe('a connection that may not come at once is waited for with a limit', () => {
  it('where none is idle', async () => {
    const { pool, clock } = setUp()
    await connect(pool, clock.runtime)
    expect(longest(clock)).toEqual([5_000])
    expect(clock.timers).toBe(0)
  })

  it('and a loss of the pool does not end the process meanwhile', async () => {
    const { pool, clock } = setUp()
    await connect(pool, clock.runtime)
    expect(() => pool.emit('error', new Error('lost'), {} as PoolClient)).not.toThrow()
  })

  it('where other callers are before it', async () => {
    const { pool, clock } = setUp()
    ;(await pool.connect()).release()
    const other = pool.connect()
    expect([pool.idleCount, pool.waitingCount]).toEqual([1, 1])
    await connect(pool, clock.runtime)
    expect(longest(clock)).toEqual([5_000])
    await other
  })

  it('where a subclass has a `connect` of its own', async () => {
    const { pool, clock } = setUp(2, CheckingPool)
    ;(await pool.connect()).release()
    await connect(pool, clock.runtime)
    expect(longest(clock)).toEqual([5_000])
  })

  it('where the pool is not of pg, as that of PGlite', async () => {
    const { clock } = setUp()
    const lent = { release: () => undefined }
    const pool = { connect: async () => lent, idleCount: 1, waitingCount: 0 }
    expect(await connect(pool as never, clock.runtime)).toBe(lent)
    expect(longest(clock)).toEqual([5_000])
  })

  it('and goes back if it comes too late', async () => {
    const { pool, clock } = setUp(1)
    const taken = await pool.connect()
    const ended = vi.fn()
    connect(pool, clock.runtime).catch(ended)
    await clock.advance(4_999)
    expect(ended).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(ended).toHaveBeenCalledWith(
      new StoreUnavailableError(
        'No connection of the pool (1 of 1 in use, 1 waiting) became free within 5000 ms.',
      ),
    )
    taken.release()
    await turn()
    expect([pool.idleCount, pool.waitingCount]).toEqual([1, 0])
  })

  it('and ends no process if it fails too late', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const { clock } = setUp()
    const lending = Promise.withResolvers<PoolClient>()
    const lent = lentWithin(lending.promise, clock.runtime, 10)
    await clock.advance(10)
    expect(await lent).toBe(LATE)
    lending.reject(new Error('refused'))
    await turn()
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
  })
})

const client = (status?: string): object =>
  status === undefined ? {} : { getTransactionStatus: () => status }

// Red when a failed one counts as free: what onceward stores there would be rolled back.
test.each([
  ['in a transaction', client('T'), true],
  ['in a failed one', client('E'), true],
  ['in none', client('I'), false],
  ['of a pg that cannot tell', client(), false],
  ['that is nothing', undefined, false],
])('a client %s', (_, given, expected) => {
  expect(isInTransaction(given)).toBe(expected)
})

test('a client without a connection is refused, and goes back', () => {
  expect(hasConnection({ connection: {} } as Partial<PoolClient>)).toBe(true)
  expect([hasConnection({}), hasConnection(undefined)]).toEqual([false, false])
  const release = vi.fn()
  expect(() => refuseClient({ release } as never)).toThrow(ConfigurationError)
  expect(release).toHaveBeenCalledExactlyOnceWith()
  expect(() => refuseClient(undefined)).toThrow(/not `pg.native`/)
})

describe('a client is awaited until no statement runs on it', () => {
  async function running() {
    const { pool, server } = setUp()
    server.answer = () => ({ hangs: true })
    const lent = await pool.connect()
    expect(isBusy(lent)).toBe(false)
    await idle(lent)
    const names = () => lent.eventNames()
    const before = names()
    const statement = lent.query('select').catch(() => undefined)
    lent.on('error', () => undefined)
    const ended = vi.fn()
    void idle(lent).then(ended)
    await turn()
    expect(isBusy(lent)).toBe(true)
    expect(ended).not.toHaveBeenCalled()
    return { ended, statement, names, before, backend: server.backends[0]! }
  }

  it.each<[string, (backend: Awaited<ReturnType<typeof running>>['backend']) => void]>([
    ['it is answered', (backend) => backend.goOn()],
    ['its connection has ended', (backend) => backend.destroy()],
  ])('%s', async (_, end) => {
    const { backend, ended, statement, names, before } = await running()
    end(backend)
    await statement
    await turn()
    expect(ended).toHaveBeenCalledTimes(1)
    // Red when a listener stays after each event.
    expect(names().filter((name) => name !== 'error')).toEqual(before)
  })
})
