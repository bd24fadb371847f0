import { setTimeout as pause } from 'node:timers/promises'
import { createGuard, type Guard, type GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'
import { createEffects, type Order, toDelivery, write } from '../load/effects.ts'
import { CONCURRENCY } from '../runner/rounds.ts'
import { settle } from '../scenarios/guard.ts'

type PgInbox = ReturnType<typeof pgInbox>
type Session = Awaited<ReturnType<PgInbox['open']>>

/** How long a guard waits between two steps of its sweep, ms. */
const STEP_MS = 200

/** A database with a guard that processes batches, and a sweep that the benchmark runs. */
export interface Testbed extends AsyncDisposable {
  readonly pool: Pool
  readonly guard: Guard
  /** Sweeps repeatedly until the signal; resolves with the time of the longest step, ms. */
  sweep(signal: AbortSignal): Promise<number>
}

export async function openTestbed(connectionString: string): Promise<Testbed> {
  // The guard keeps two connections for itself.
  const pool = new Pool({ connectionString, max: CONCURRENCY + 2 })
  pool.on('error', () => undefined)
  await migrate(pool)
  await createEffects(pool)
  const opened = Promise.withResolvers<Session>()
  const guard = createGuard(
    {
      consumer: 'bench',
      inbox: restingInbox(pgInbox(pool), opened.resolve),
      transaction: 'batch',
      concurrency: CONCURRENCY,
    },
    ({ payload }: GuardEvent<Order>, { tx }) => write(tx, payload),
  )
  await settle(guard, [toDelivery()], 'processed')
  const session = await opened.promise
  return {
    pool,
    guard,
    sweep: async (signal) => {
      let longest = 0
      while (!signal.aborted) {
        const startedAt = performance.now()
        await session.sweep()
        longest = Math.max(longest, performance.now() - startedAt)
        await pause(STEP_MS, undefined, { signal }).catch(() => undefined)
      }
      return longest
    },
    [Symbol.asyncDispose]: async () => {
      await guard.close()
      await pool.end()
    },
  }
}

/** The same inbox, with a sweep that finds nothing for the guard itself. */
function restingInbox(inbox: PgInbox, onOpened: (session: Session) => void): PgInbox {
  return {
    open: async (registration) => {
      const session = await inbox.open(registration)
      onOpened(session)
      return new Proxy(session, {
        get: (target, name) => {
          if (name === 'sweep') return async () => ({ deleted: 0, finished: true })
          const value: unknown = Reflect.get(target, name)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
    },
  }
}
