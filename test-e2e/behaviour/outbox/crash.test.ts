// @module-tag nightly

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createGuard } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeStream } from '@onceward/redis-streams'
import { database, type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { silent } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { severCommit, targetOf, through } from '../../support/crash/wire-faults.ts'
import { chargeText, type Death, FATAL_ORDER, KEYS, type Told } from './protocol.ts'

const ORDERS = Array.from({ length: 12 }, (_, n) => n)

let server: Server<RedisConnection>
let client: Redis
beforeAll(async () => {
  server = await redis()
  client = new Redis(server.connection.port)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

/** A process that charges and announces; it answers undefined once it has died. */
function announcer(url: string, stream: string, death: Death) {
  const { NODE_OPTIONS: _, ...env } = process.env
  const execArgv = ['--conditions=@onceward/source', '--no-warnings']
  const file = join(import.meta.dirname, 'announcer-main.ts')
  const args = [url, String(server.connection.port), stream, death]
  const child = fork(file, args, { env, execArgv, stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  const ended = once(child, 'exit')
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null
  const kill = (): void => {
    if (!isOver()) child.kill('SIGKILL')
  }
  return {
    tell: async (told: Told): Promise<unknown> => {
      if (isOver()) return undefined
      const answer = once(child, 'message')
      child.send(told, () => undefined)
      const [said] = (await Promise.race([answer, ended.then(() => [])])) as unknown[]
      return said
    },
    says: async (): Promise<string> => String((await once(child.stdout!, 'data'))[0]).trim(),
    signal: async (): Promise<unknown> => ended.then(() => child.signalCode),
    goOn: () => child.kill('SIGCONT'),
    kill,
    [Symbol.asyncDispose]: async () => {
      kill()
      await ended
    },
  }
}

/** Tables, a stream, and the consumer of what is announced on it. */
async function announced(stream: string) {
  const { url } = await database()
  const pool = new pg.Pool({ connectionString: url, max: 5 })
  await migrate(pool)
  await pool.query('create table charges (n int); create table effects (n int)')
  const guard = createGuard(
    { consumer: 'payments', inbox: pgInbox(pool), logger: silent },
    async ({ payload }, { tx }) => {
      await tx.query('insert into effects values ($1)', [(payload as { n: number }).n])
    },
  )
  const consumption = await consumeStream(client, guard, { stream, keepEntries: true })
  const column = async (text: string): Promise<readonly number[]> =>
    (await pool.query(text)).rows.map(({ n }) => n)
  return {
    url,
    charges: () => column('select n from charges order by n'),
    effects: () => column('select n from effects order by n'),
    left: () => column('select 1 as n from onceward.outbox_messages'),
    /** Open transactions that have written messages. */
    flushed: async (): Promise<number> => (await column(FLUSHED))[0] ?? 0,
    /** In the order in which the broker got them. */
    published: async (): Promise<readonly number[]> =>
      (await client.xrange(stream, '-', '+')).map(([, fields]) => {
        return JSON.parse(fields[fields.indexOf('payload') + 1] ?? '').n
      }),
    [Symbol.asyncDispose]: async () => {
      await consumption.drain()
      await guard.close()
      await pool.end()
    },
  }
}

const FLUSHED = `select count(*)::int as n from pg_stat_activity
  where datname = current_database() and state = 'idle in transaction' and query like '%insert into%outbox_messages%'`

/** Each order is charged, announced in the order of its key, and has its effect once behind a guard. */
async function expectAnnounced(of: Awaited<ReturnType<typeof announced>>, copies: number) {
  expect(await of.charges()).toEqual(ORDERS)
  await until(async () => (await of.left()).length === 0)
  await until(async () => (await of.effects()).length >= ORDERS.length)
  const published = await of.published()
  expect(published).toHaveLength(ORDERS.length + copies)
  for (const key of Array.from({ length: KEYS }, (_, index) => index)) {
    const first = [...new Set(published)].filter((n) => n % KEYS === key)
    expect(first).toEqual(ORDERS.filter((n) => n % KEYS === key))
  }
  expect(await of.effects()).toEqual(ORDERS)
}

/** Of the processes that die before they relay: how many messages they leave. */
const LEFT: Partial<Record<Death, number>> = {
  ...{ 'before-flush': 4, 'before-commit': 4, 'commit-lost': 4 },
  ...{ 'commit-arrives': 5, 'after-commit': 5 },
}

/** The connection of a process that dies while its COMMIT is on the wire. It is silent from then on. */
async function wireOf(url: string, death: Death) {
  const arrives = death === 'commit-arrives'
  if (!arrives && death !== 'commit-lost' && death !== 'before-commit') return undefined
  const fault = { text: chargeText(FATAL_ORDER), arrives, by: 'silence' } as const
  const { proxy, reached } = await severCommit(targetOf(url), fault)
  return { url: through(url, proxy), reached, [Symbol.asyncDispose]: () => proxy.stop() }
}

// Red when messages are written outside of the transaction of their event, when they are deleted before they are published
// (lost), and when the guard behind does not find their id (twice).
test.concurrent.each<readonly [title: string, death: Death, copies: number]>([
  ['before the flush of what its handler has sent', 'before-flush', 0],
  ['after the flush, before COMMIT', 'before-commit', 0],
  ['with flush and COMMIT sent, which do not arrive', 'commit-lost', 0],
  ['with COMMIT sent, whose reply is lost', 'commit-arrives', 0],
  ['after the COMMIT', 'after-commit', 0],
  ['while its relay publishes', 'publishing', 1],
  ['after the confirm, before the delete', 'before-delete', KEYS],
])('a process killed %s: each message once behind a guard', async (_title, death, copies) => {
  await using of = await announced(death)
  await using wire = await wireOf(of.url, death)
  await using first = announcer(wire?.url ?? of.url, death, death)
  const struck = wire?.reached.then(async () => {
    const flushed = await of.flushed()
    first.kill()
    return flushed
  })
  for (const n of ORDERS) await first.tell(n)
  await first.tell('relay')
  expect(await first.signal()).toBe('SIGKILL')
  if (wire !== undefined) expect(await struck).toBe(death === 'before-commit' ? 1 : 0)
  if (LEFT[death] !== undefined) expect(await of.left()).toHaveLength(LEFT[death])
  await using second = announcer(of.url, death, 'never')
  for (const n of ORDERS) await until(async () => (await second.tell(n)) === 'ack')
  expect(await second.tell('relay')).toBe('relaying')
  await expectAnnounced(of, copies)
})

// Red when a relay goes on after its lease: it would publish all of what the other one has published.
test.concurrent('a relay frozen past its lease: another one publishes, and what the first has in hand is all that it adds', async () => {
  await using of = await announced('frozen')
  await using first = announcer(of.url, 'frozen', 'frozen')
  for (const n of ORDERS) expect(await first.tell(n)).toBe('ack')
  const frozen = first.says()
  const relaying = first.tell('relay')
  expect(await frozen).toBe('frozen')
  await using second = announcer(of.url, 'frozen', 'never')
  expect(await second.tell('relay')).toBe('relaying')
  await expectAnnounced(of, 0)
  first.goOn()
  await relaying
  await until(async () => (await of.published()).length > ORDERS.length)
  await first.tell('drain')
  await expectAnnounced(of, KEYS)
})
