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
      if (/^\s*(select|update|delete|with)/.test(text)) {
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

interface Filling {
  readonly destination?: string
  readonly count: number
  /** SQL of `n`. */
  readonly key?: string
  readonly bucket?: string
  readonly state?: string
}

async function fill({
  bucket = 'n % 64',
  count,
  destination = 'a',
  key = 'n::text',
  state = "'q'",
}: Filling): Promise<void> {
  await pool.query(
    `insert into onceward.outbox_messages (bucket, message_id, destination, key, envelope, payload, state, due_at)
     select b, n::text, $1, k::bytea, '{"source":"s","type":"t","headers":{},"isJson":true}', '{}', s, now() + interval '1 hour'
     from (select n, ${bucket} as b, ${key} as k, ${state}::"char" as s from generate_series(1, $2::int) n) made`,
    [destination, count],
  )
}

const ALL = Array.from({ length: 64 }, (_, bucket) => bucket)
const NONE: ReadonlySet<string> = new Set()
const MESSAGES = 10_000

/** A relay that reads and deletes. */
function relay() {
  const { buffers, counted } = counting()
  const store = new RelayStore(counted, '"onceward"', ['a'])
  return {
    /** Buffers for each message of some looks. */
    cost: async (): Promise<number> => {
      const before = buffers()
      let count = 0
      while (count < MESSAGES) {
        const messages = await store.read('a', ALL, NONE)
        await store.remove('a', messages)
        count += messages.length
      }
      return (buffers() - before) / count
    },
  }
}

async function fresh(...fillings: readonly Filling[]): Promise<void> {
  await pool.query('truncate onceward.outbox_messages')
  for (const filling of fillings) await fill(filling)
  await pool.query('vacuum analyze onceward.outbox_messages')
}

async function costOfFew(): Promise<number> {
  await fresh({ count: 20_000 })
  const few = await relay().cost()
  expect(few).toBeGreaterThan(1)
  return few
}

// Red before: a look read 64 messages of each bucket to take an eighth of them, and each that was deleted was looked up alone.
test('a message costs as many buffers when 200,000 wait as when 20,000 do', async () => {
  const few = await costOfFew()
  await fresh({ count: 200_000 }, { destination: 'b', count: 200_000 })
  expect(await relay().cost()).toBeLessThan(few * 1.25)
})

// Red before: after ANALYZE the whole table was scanned once for each bucket.
test('a message costs no more when one key has almost all of them', async () => {
  const few = await costOfFew()
  await fresh({ count: 200_000, key: "'hot'", bucket: '7' }, { count: 10_000 })
  expect(await relay().cost()).toBeLessThan(few * 1.5)
})

// Red before: each look passed all that waits behind each key that was refused.
test('what waits behind 1,000 refused keys is passed once, and the others leave', {
  tags: 'nightly',
}, async () => {
  const few = await costOfFew()
  const key = '(n % 1000)::text'
  const bucket = '(n % 1000) % 64'
  await fresh(
    { count: 1_000, key, bucket, state: "'w'" },
    { count: 60_000, key, bucket },
    { count: 80_000, key: "'free' || n" },
  )
  const { cost } = relay()
  // To hold the messages costs as much as to publish them.
  const behind =
    "select from onceward.outbox_messages where state = 'q' and key not like 'free%' limit 1"
  while ((await pool.query(behind)).rowCount === 1) await cost()
  const costs = [await cost(), await cost()]

  expect(Math.min(...costs)).toBeLessThan(few * 2)
})

// Red before: nothing left while all of it was set aside.
test('what is behind 100,000 messages that must wait leaves before these are set aside', async () => {
  const key = '(n % 20)::text'
  await fresh(
    { count: 20, key, state: "'w'" },
    { count: 100_000, key, bucket: 'n % 20' },
    { count: 1_000, key: "'free' || n", bucket: 'n % 20' },
  )
  const store = new RelayStore(pool as unknown as PoolLike, '"onceward"', ['a'])
  expect((await store.read('a', ALL, NONE)).length).toBeGreaterThan(0)
  const aside = "select count(*)::int as n from onceward.outbox_messages where state = 'h'"
  expect((await pool.query(aside)).rows[0].n).toBeLessThan(50_000)
})

// Red before: each look passed all that had left, because no vacuum could remove it.
test('a message costs no more after 30,000 have left while a transaction is open elsewhere', async () => {
  await fresh({ count: 60_000 })
  const other = await pool.connect()
  await other.query('begin isolation level repeatable read')
  await other.query('select from onceward.outbox_messages limit 1')
  const { cost } = relay()
  const [first, ...later] = [await cost(), await cost(), await cost(), await cost()]
  await other.query('rollback')
  other.release()

  for (const one of later) expect(one).toBeLessThan((first ?? 0) * 2)
})
