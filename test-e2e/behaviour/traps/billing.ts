import {
  createGuard,
  type Delivery,
  type Guard,
  type GuardEvent,
  type Handler,
  type HandlerContext,
  type InboxGuardOptions,
} from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { createAloneLock, systemRuntime } from '@onceward/core/ports'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { database } from '@onceward/testing'
import pg, { type PoolClient } from 'pg'

type Options = Omit<InboxGuardOptions<unknown, PoolClient>, 'consumer' | 'inbox'>
type InboxOptions = Parameters<typeof pgInbox>[1]

export const quiet = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}

/** What a trap is sprung on: a database with charges, and guards on pools of their own, as processes have. */
export interface Billing extends AsyncDisposable {
  readonly url: string
  /** For looking and for holding locks; not a guard's. */
  readonly admin: pg.Pool
  guard(handler: Handler<unknown, PoolClient>, options?: GuardSet): Guard
  /** How many charges there are, of one key or of all. */
  charges(key?: string): Promise<number>
  /** One row of one column. */
  value(text: string, values?: readonly unknown[]): Promise<unknown>
  /** Puts the event's counts and waits into the past, as time would. */
  age(): Promise<void>
}

export interface GuardSet {
  readonly consumer?: string
  readonly poolSize?: number
  readonly url?: string
  readonly inbox?: InboxOptions
  readonly options?: Partial<Options>
}

export async function openBilling(): Promise<Billing> {
  const { url } = await database()
  const admin = createPool(url, 5)
  await migrate(admin)
  await admin.query('create table charges (key text not null, attempt int not null)')
  await admin.query('create table balances (id int primary key, cents int not null)')
  await admin.query('insert into balances values (1, 0)')
  const guards: Guard[] = []
  const pools: pg.Pool[] = [admin]
  const value: Billing['value'] = async (text, values = []) => {
    const { rows } = await admin.query<Record<string, unknown>>(text, [...values])
    return Object.values(rows[0] ?? {})[0]
  }
  return {
    url,
    admin,
    guard: (handler, set = {}) => {
      const pool = createPool(set.url ?? url, set.poolSize ?? 10)
      pools.push(pool)
      const guard = createGuard(
        {
          consumer: set.consumer ?? 'billing',
          inbox: pgInbox(pool, set.inbox),
          logger: quiet,
          // A lock of its own, as each process has one.
          runtime: { ...systemRuntime, alone: createAloneLock() },
          retry: { attempts: 3, baseMs: 1, maxMs: 1_000 },
          ...set.options,
        },
        handler,
      )
      guards.push(guard)
      return guard
    },
    charges: async (key) =>
      Number(
        key === undefined
          ? await value('select count(*) from charges')
          : await value('select count(*) from charges where key = $1', [key]),
      ),
    value,
    age: async () => {
      await admin.query(`update onceward.failed_events
        set counted_at = counted_at - interval '1 hour', next_try = next_try - interval '1 hour'`)
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(guards.map((guard) => guard.close()))
      await Promise.all(pools.map((pool) => pool.end()))
    },
  }
}

function createPool(url: string, max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max })
  // Connections that tests terminate while they idle.
  pool.on('error', () => undefined)
  return pool
}

/** The ordinary handler: one row in the transaction. */
export const charge = async (
  event: GuardEvent<unknown>,
  { tx }: HandlerContext<PoolClient>,
): Promise<void> => {
  await tx.query('insert into charges (key, attempt) values ($1, $2)', [event.key, event.attempt])
}

export const orderPlaced = (key: string, overrides: Partial<Delivery> = {}): Delivery =>
  toDelivery({ order: key }, { messageId: key, ...overrides })

export const redelivered = (delivery: Delivery): Delivery => ({
  ...delivery,
  redelivered: true,
  deliveryCount: (delivery.deliveryCount ?? 1) + 1,
})

/** A worker whose clock is wrong by `offsetMs`. */
export const skewed = (offsetMs: number): Pick<Options, 'runtime'> => ({
  runtime: {
    ...systemRuntime,
    now: () => (systemRuntime.now() + offsetMs) as ReturnType<typeof systemRuntime.now>,
  },
})

/** A door that a handler waits at until the test opens it. */
export function createGate(): {
  readonly reached: Promise<void>
  pass(): Promise<void>
  open(): void
} {
  const reached = Promise.withResolvers<void>()
  const opened = Promise.withResolvers<void>()
  return {
    reached: reached.promise,
    pass: () => {
      reached.resolve()
      return opened.promise
    },
    open: () => opened.resolve(),
  }
}
