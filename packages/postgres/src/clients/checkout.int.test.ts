import { StoreUnavailableError } from '@onceward/core'
import { systemRuntime } from '@onceward/core/ports'
import { database, until } from '@onceward/testing'
import { fresh, newEvent } from '@onceward/testing/conformance'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  CLIENTS,
  NOTHING,
  type TestClient,
  type TestSession,
  useWholePool,
} from '../fixtures/clients.ts'
import { migrate } from '../operators/migrate.ts'

describe.each(CLIENTS)('the connections of a pool over $name', ({ make }) => {
  let client: TestClient
  let pool: pg.Pool
  let session: TestSession
  /** How much faster than real time the timers run. */
  let speed = 1

  beforeAll(async () => {
    // Idle connections stay.
    client = make({ connectionString: (await database()).url, max: 3, idleTimeoutMillis: 0 })
    pool = client.pool
    await migrate(pool)
    const setTimer: typeof systemRuntime.setTimer = (callback, delayMs, options) =>
      systemRuntime.setTimer(callback, delayMs / speed, options)
    session = await client.open({}, { runtime: { ...systemRuntime, setTimer } })
  })
  afterAll(() => client.close())

  const takeAll = (): Promise<readonly pg.PoolClient[]> =>
    Promise.all(Array.from({ length: 3 }, () => pool.connect()))

  const emits = new WeakMap<NodeJS.EventEmitter, NodeJS.EventEmitter['emit']>()

  /** The most listeners that any event of a connection has. */
  async function mostListeners(): Promise<number> {
    const all = await takeAll()
    const emitters = all.flatMap((each) => {
      const { connection } = each as unknown as { readonly connection: NodeJS.EventEmitter }
      // Over Kysely the guard listens by a method in place of this one, the same for as long as the connection lives.
      if (Object.hasOwn(connection, 'emit')) {
        expect(connection.emit).toBe(emits.get(connection) ?? connection.emit)
        emits.set(connection, connection.emit)
      }
      return [each, connection]
    })
    for (const each of all) each.release()
    return Math.max(
      ...emitters.flatMap((emitter) =>
        emitter.eventNames().map((name) => emitter.listenerCount(name)),
      ),
    )
  }

  /** One transaction of each end, and a short statement on each spare connection. */
  async function useAll(): Promise<void> {
    await (await session.begun(newEvent())).transaction.commit(NOTHING)
    await (await session.begun(newEvent())).transaction.rollback()
    const event = newEvent()
    const { transaction } = await session.begun(event)
    await transaction.rollbackAndFail([{ event, attempt: 1, error: 'declined', delayMs: 0 }])
    await Promise.all(Array.from({ length: 4 }, () => session.classify([event])))
  }

  it('are left without the listeners of onceward', async () => {
    // Red when a listener stays after each event: the memory of the process grows, and Node warns of a leak.
    for (let round = 0; round < 10; round++) {
      await useAll()
      // One of pg, and one of the guard that lives as long as the connection.
      expect(await mostListeners()).toBe(2)
    }
  })

  it.each([
    ['a transaction', () => session.begin(fresh(newEvent()))],
    ['a short statement', () => session.classify([newEvent()])],
  ] as const)('go back if they come too late for %s', async (_, ask) => {
    // Red when one that comes later is forgotten: the pool has one less each time, and in the end none.
    const taken = await takeAll()
    speed = 100
    await expect(ask()).rejects.toBeInstanceOf(StoreUnavailableError)
    speed = 1
    for (const each of taken) each.release()
    await until(() => pool.waitingCount === 0 && pool.idleCount === pool.totalCount)
    await useWholePool(session, client)
  })
})
