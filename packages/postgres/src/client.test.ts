import { StoreUnavailableError } from '@onceward/core'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { inTransaction, type PoolClientLike } from './client.ts'
import { deadLetters } from './operators/dead-letters.ts'
import { migrate } from './operators/migrate.ts'
import { sweep } from './operators/sweep.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

const never = (): Promise<never> => new Promise(() => undefined)
/** Longer than the server lets a statement of an operator run. */
const LONG_MS = 80_000

/** A pool over a network that has fallen silent. */
function silentPool() {
  const query = vi.fn<PoolClientLike['query']>(never)
  const release = vi.fn<PoolClientLike['release']>()
  return { query, release, connect: async (): Promise<PoolClientLike> => ({ query, release }) }
}

const ACTIONS = {
  replay: (pool: ReturnType<typeof silentPool>) => deadLetters(pool).replay({ all: true }),
  discard: (pool: ReturnType<typeof silentPool>) => deadLetters(pool).discard({ all: true }, 'old'),
  sweep: (pool: ReturnType<typeof silentPool>) => sweep(pool),
}

// Red (no answer for ever) where only the server bounds a statement: it cannot tell the client.
test.each(Object.entries(ACTIONS))(
  '%s gives up a server that falls silent, and closes its connection',
  async (_, act) => {
    const pool = silentPool()
    const acting = expect(act(pool)).rejects.toThrow(StoreUnavailableError)
    await vi.advanceTimersByTimeAsync(LONG_MS)
    await acting
    // Not the ROLLBACK too: it would wait behind the statement.
    expect(pool.query).toHaveBeenCalledTimes(1)
    expect(pool.release).toHaveBeenCalledExactlyOnceWith(true)
  },
)

// Red when the wait ends first: the statement would go on in the server, and its answer would be lost.
test('a statement that the server cancels after a minute is waited for', async () => {
  const error = Object.assign(new Error('canceling statement'), { code: '57014' })
  const fail = (_resolve: unknown, reject: (error: Error) => void) =>
    void setTimeout(() => reject(error), 60_000)
  const release = vi.fn<PoolClientLike['release']>()
  const query = async (text: string) =>
    text === 'slow' ? new Promise<never>(fail) : { rows: [], rowCount: 0 }
  const pool = { connect: async (): Promise<PoolClientLike> => ({ query, release }) }
  const acting = inTransaction(pool, (client) => client.query('slow')).catch((end: unknown) => end)
  await vi.advanceTimersByTimeAsync(LONG_MS)
  expect(await acting).toBe(error)
  expect(release).toHaveBeenCalledExactlyOnceWith(false)
})

test('a pool that never lends a connection is given up, and a late connection goes back', async () => {
  const lent = Promise.withResolvers<PoolClientLike>()
  const acting = expect(sweep({ connect: () => lent.promise })).rejects.toThrow(
    StoreUnavailableError,
  )
  await vi.advanceTimersByTimeAsync(LONG_MS)
  await acting
  const { query, release } = silentPool()
  lent.resolve({ query, release })
  await vi.waitFor(() => expect(release).toHaveBeenCalledOnce())
})

test('migrate waits as long as a migration takes', async () => {
  const pool = silentPool()
  let isOver = false
  const over = (): void => {
    isOver = true
  }
  migrate(pool).then(over, over)
  await vi.advanceTimersByTimeAsync(LONG_MS)
  expect(isOver).toBe(false)
})
