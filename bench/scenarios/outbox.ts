import { createGuard, type Destination, type Guard, type GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { startRelay } from '@onceward/postgres/outbox'
import { pgInbox } from '@onceward/postgres/pg'
import { postgres } from '@onceward/testing/servers'
import { Pool, type PoolClient } from 'pg'
import { createEffects, DURABLE, type Order, toDelivery, write } from '../load/effects.ts'
import { processed, warm } from '../load/round-guard.ts'
import { QUIET } from '../runner/observer.ts'
import type { Benchmark } from '../runner/report.ts'
import {
  alternate,
  CONCURRENCY,
  type Contestant,
  inLanes,
  median,
  ratioOf,
} from '../runner/rounds.ts'
import type { Scale } from '../runner/scale.ts'

/** One database is empty, in the other one many messages wait: those of `nobody` and those of `somebody`. */
const BACKLOGS = ['', '-backlog'] as const

/** Handlers that send, beside one that writes the message into a table of its own; and what a relay publishes. */
export async function outboxBenchmark(scale: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  await using stack = new AsyncDisposableStack()
  const contestants: Contestant[] = []
  for (const suffix of BACKLOGS) {
    const url = await server.createDatabase()
    const pool = new Pool({ connectionString: url, max: CONCURRENCY + 4, idleTimeoutMillis: 0 })
    stack.defer(() => pool.end())
    await migrate(pool)
    await createEffects(pool)
    await pool.query(
      'create table my_outbox (id bigserial primary key, destination text, payload jsonb)',
    )
    if (suffix !== '') {
      await fill(pool, 'nobody', scale.growth)
      await fill(pool, 'somebody', scale.growth)
    }
    const senders = suffix === '' ? [0, 1, 3] : [1]
    for (const sends of senders) contestants.push(sender(pool, `sends-${sends}${suffix}`, sends))
    if (suffix === '') contestants.push(byHand(pool))
    contestants.push(relay(pool, `relay${suffix}`, suffix !== ''))
  }
  const rates = await alternate(contestants, { ...scale, rounds: scale.rivalRounds })
  const ratios = {
    'one-of-none': ratioOf(rates, 'sends-1', 'sends-0'),
    'three-of-none': ratioOf(rates, 'sends-3', 'sends-0'),
    'one-of-by-hand': ratioOf(rates, 'sends-1', 'by-hand'),
    'send-with-backlog': ratioOf(rates, 'sends-1-backlog', 'sends-1'),
    'relay-with-backlog': ratioOf(rates, 'relay-backlog', 'relay'),
  }
  return {
    name: 'outbox',
    unit: 'events/s, messages/s',
    values: Object.fromEntries([...rates].map(([name, rounds]) => [name, median(rounds)])),
    ratios,
    goals: [
      { name: 'one-of-by-hand', least: 0.9 },
      { name: 'send-with-backlog', least: 0.8 },
      { name: 'relay-with-backlog', least: 0.8 },
    ],
  }
}

const ENVELOPE = '{"source":"bench","type":"pay","headers":{},"isJson":true}'

/** As a flush writes them, each with a key of its own. */
async function fill(pool: Pool, destination: string, count: number): Promise<void> {
  await pool.query(
    `insert into onceward.outbox_messages (bucket, message_id, destination, key, envelope, payload)
     select n % 64, gen_random_uuid()::text, $1, convert_to('key-' || n, 'UTF8'), $2::bytea, convert_to('{"cents":' || n || '}', 'UTF8')
     from generate_series(1, $3::int) n`,
    [destination, ENVELOPE, count],
  )
  await pool.query('vacuum analyze onceward.outbox_messages')
}

const guardOf = (
  pool: Pool,
  handle: (event: GuardEvent<Order>, context: { tx: PoolClient }) => Promise<unknown>,
  sends: number,
): Guard =>
  createGuard(
    { consumer: `bench-${sends}`, inbox: pgInbox(pool), concurrency: CONCURRENCY, logger: QUIET },
    async (event: GuardEvent<Order>, { outbox, tx }) => {
      await handle(event, { tx })
      const { payload } = event
      for (let n = 0; n < sends; n += 1) {
        outbox.send({ to: 'sent', key: `${event.key}-${n}`, payload })
      }
    },
  )

function sending(name: string, pool: Pool, guard: () => Guard): Contestant {
  return {
    name,
    prepare: async (events) => {
      const used = guard()
      await pool.query(
        "delete from onceward.outbox_messages where destination = 'sent'; truncate my_outbox",
      )
      await warm((delivery) => processed(used, delivery))
      const deliveries = Array.from({ length: events }, toDelivery)
      return async () => {
        await inLanes(deliveries, CONCURRENCY, async (each) => void (await processed(used, each)))
        void used.close()
      }
    },
  }
}

const sender = (pool: Pool, name: string, sends: number): Contestant =>
  sending(name, pool, () => guardOf(pool, ({ payload }, { tx }) => write(tx, payload), sends))

const byHand = (pool: Pool): Contestant =>
  sending('by-hand', pool, () =>
    guardOf(
      pool,
      async ({ payload }, { tx }) => {
        await write(tx, payload)
        await tx.query('insert into my_outbox (destination, payload) values ($1, $2)', [
          ...['sent', JSON.stringify(payload)],
        ])
      },
      0,
    ),
  )

/** A broker that confirms at once: what is measured is the relay. */
function relay(pool: Pool, name: string, hasBacklog: boolean): Contestant {
  return {
    name,
    factor: 5,
    prepare: async (messages) => {
      await fill(pool, 'somebody', messages)
      return async () => {
        let published = 0
        const over = Promise.withResolvers<void>()
        const somebody: Destination = {
          batch: 500,
          keepsOrder: true,
          publish: async (some) => {
            published += some.length
            if (published >= messages) over.resolve()
            return some.map(() => undefined)
          },
        }
        const startedAt = performance.now()
        const running = await startRelay({ pool, destinations: { somebody }, logger: QUIET })
        await over.promise
        const tookMs = performance.now() - startedAt
        await running.drain()
        // With a backlog more than these may have left.
        return hasBacklog ? (tookMs * messages) / published : tookMs
      }
    },
  }
}
