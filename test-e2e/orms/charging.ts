import { randomUUID } from 'node:crypto'
import {
  createGuard,
  type Guard,
  type GuardEvent,
  type HandlerContext,
  type Inbox,
} from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import { migrate } from '@onceward/postgres'
import { database } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'

export interface Shared {
  readonly count?: number
  readonly transaction?: 'each' | 'batch'
}

export type Work<Tx> = (event: GuardEvent<unknown>, context: HandlerContext<Tx>) => unknown

let pool: pg.Pool
const guards: Guard[] = []
/** Lines of the guards of one test. */
export const errors: unknown[][] = []
export const warnings: unknown[][] = []
const logger = {
  ...silent,
  error: (...line: unknown[]) => void errors.push(line),
  warn: (...line: unknown[]) => void warnings.push(line),
}

/** Prepares the database of a test file, and what its tests share. */
export function prepareCharging(prepared: (connectionString: string) => void): void {
  beforeAll(async () => {
    const { url } = await database()
    pool = new pg.Pool({ connectionString: url, max: 3 })
    await migrate(pool)
    await pool.query(
      'create table charges (order_id text primary key, cents int check (cents > 0))',
    )
    prepared(url)
  })
  beforeEach(() => {
    errors.splice(0)
    warnings.splice(0)
  })
  afterEach(closeGuards)
  afterAll(() => pool.end())
}

export async function closeGuards(): Promise<void> {
  await Promise.all(guards.splice(0).map((guard) => guard.close()))
}

/** Delivers events to a handler, and answers their settlements, what is charged and how many messages are sent then. */
export async function run<Tx>(
  inbox: Inbox<Tx>,
  work: Work<Tx>,
  { count = 1, transaction = 'each' }: Shared = {},
) {
  const consumer = randomUUID()
  const retry = { attempts: 3, baseMs: 1, maxMs: 1 }
  const guard = createGuard(
    { consumer, inbox, logger, retry, transaction },
    async (event, context) => void (await work(event, context)),
  )
  guards.push(guard)
  const keys = Array.from({ length: count }, () => randomUUID())
  const settlements = await guard.processBatch(
    keys.map((key) => toDelivery({ key }, { headers: { 'idempotency-key': key } })),
  )
  const charged = `select substr(order_id, 38) as name from charges where left(order_id, 36) = any($1) order by name`
  const sent = 'select message_id from onceward.outbox_messages where destination = any($1)'
  const [{ rows }, { rows: sends }] = await Promise.all([
    pool.query(charged, [keys]),
    pool.query(sent, [keys]),
  ])
  const [error] = settlements.flatMap((each) => ('error' in each ? [String(each.error)] : []))
  return {
    kinds: settlements.map(({ kind }) => kind),
    error,
    charged: rows.map(({ name }) => name as string),
    sends: sends.length,
  }
}
