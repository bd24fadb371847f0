import { database } from '@onceward/testing'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PoolClientLike, PoolLike } from '../client.ts'
import { migrate } from '../operators/migrate.ts'
import { RelayStore } from './relay-store.ts'

let pool: pg.Pool
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: (await database()).url })
  await migrate(pool)
  await pool.query('alter table onceward.outbox_messages set (autovacuum_enabled = false)')
})
afterAll(() => pool.end())

interface Plan {
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly 'Subplan Name'?: string
  readonly Plans?: readonly Plan[]
}

/** What a CTE has read is not in the sum of its statement. */
const buffersOf = (plan: Plan): number =>
  (plan.Plans ?? [])
    .filter((part) => part['Subplan Name']?.startsWith('CTE') === true)
    .reduce((sum, part) => sum + buffersOf(part), 0) +
  plan['Shared Hit Blocks'] +
  plan['Shared Read Blocks']

interface Explained {
  readonly 'QUERY PLAN': readonly [{ readonly Plan: Plan }]
}

/** Counts the buffers of every statement: each is explained first, and what that has changed is undone. */
function counting(): { readonly counted: PoolLike; readonly buffers: () => number } {
  let sum = 0
  const connect: PoolLike['connect'] = async () => {
    const client = (await pool.connect()) as unknown as PoolClientLike
    const query = async (text: string, values?: unknown[]) => {
      if (/^\s*(select|update|with)/.test(text)) {
        await client.query('savepoint counted')
        const { rows } = await client.query(
          `explain (analyze, buffers, format json) ${text}`,
          values,
        )
        const [explained] = rows as unknown as [Explained]
        sum += buffersOf(explained['QUERY PLAN'][0].Plan)
        await client.query('rollback to savepoint counted')
      }
      return client.query(text, values)
    }
    return Object.assign(Object.create(client as object) as PoolClientLike, {
      query,
      release: (error?: Error) => client.release(error),
    })
  }
  return { counted: { ...pool, connect } as unknown as PoolLike, buffers: () => sum }
}

async function fill(destination: string, count: number): Promise<void> {
  await pool.query(
    `insert into onceward.outbox_messages (bucket, message_id, destination, key, envelope, payload)
     select n % 64, n::text, $1, n::text::bytea, '{"source":"s","type":"t","headers":{},"isJson":true}', '{}'
     from generate_series(1, $2::int) n`,
    [destination, count],
  )
  await pool.query('vacuum analyze onceward.outbox_messages')
}

const ALL = Array.from({ length: 64 }, (_, bucket) => bucket)

/** Buffers for each message that a look reads and deletes. */
async function cost(): Promise<number> {
  const { buffers, counted } = counting()
  const store = new RelayStore(counted, '"onceward"', ['a'])
  const messages = await store.read('a', ALL)
  expect(messages).toHaveLength(500)
  await store.remove(messages)
  return buffers() / messages.length
}

/** The second look counts, because a look also passes what the one before it has deleted. */
async function costOfAll(waiting: number): Promise<number> {
  await pool.query('truncate onceward.outbox_messages')
  await fill('a', waiting + 500)
  await fill('b', waiting)
  await cost()
  return cost()
}

// Red before: a look read 64 messages of each bucket to take an eighth of them, and each that was deleted was looked up alone.
test('a message costs as many buffers when 200,000 wait as when 1,000 do', async () => {
  const few = await costOfAll(1_000)
  const many = await costOfAll(200_000)
  expect(few).toBeGreaterThan(1)
  expect(many).toBeLessThan(few * 1.25)
})
