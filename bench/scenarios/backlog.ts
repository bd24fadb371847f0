import type { Confirmation, Destination, OutgoingMessage } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { startRelay } from '@onceward/postgres/outbox'
import { postgres } from '@onceward/testing/servers'
import { Pool } from 'pg'
import { DURABLE } from '../load/effects.ts'
import { QUIET } from '../runner/observer.ts'
import type { Benchmark } from '../runner/report.ts'
import type { Scale } from '../runner/scale.ts'

/** What waits when the relay starts. */
interface Case {
  /** The key of the n-th message, as SQL. */
  readonly key: string
  /** After the statistics were made. */
  readonly analyzed?: boolean
  /** While a transaction is open elsewhere, so that no vacuum removes what has left. */
  readonly besideTransaction?: boolean
}

/** The first half waits behind refused messages, which are the first of these keys. */
const behind = (keys: number): string =>
  `case when n <= $1 / 2 then 'refused-' || n % ${keys} else 'key-' || n % 10000 end`

const CASES: Readonly<Record<string, Case>> = {
  plain: { key: "'key-' || n % 10000" },
  'refused-20': { key: behind(20) },
  'refused-1000': { key: behind(1_000) },
  'refused-20-between': {
    key: "case n % 2 when 0 then 'refused-' || n / 2 % 20 else 'key-' || n % 10000 end",
  },
  'hot-key': { key: "case n % 10 when 0 then 'key-' || n % 10000 else 'hot' end", analyzed: true },
  'open-transaction': { key: "'key-' || n % 10000", besideTransaction: true },
}

/** Part of what waits that is to leave. */
const SHARE = 0.3
const LONGEST_MS = 120_000

/** How fast a relay empties a full outbox, and its longest pause, where something is in its way. */
export async function backlogBenchmark({ growth }: Scale): Promise<Benchmark> {
  await using server = await postgres({ settings: DURABLE })
  const values: Record<string, number> = {}
  for (const [name, each] of Object.entries(CASES)) {
    const pool = new Pool({ connectionString: await server.createDatabase(), max: 8 })
    const { longestPauseMs, rate } = await emptied(pool, each, growth)
    values[name] = rate
    values[`${name}-pause-ms`] = longestPauseMs
    await pool.end()
  }
  return {
    name: 'backlog',
    unit: 'messages/s',
    values,
    ratios: {},
    goals: Object.keys(CASES).map((name) => ({ name: `${name}-pause-ms`, most: 2_000 })),
  }
}

interface Emptied {
  readonly rate: number
  readonly longestPauseMs: number
}

async function emptied(pool: Pool, each: Case, count: number): Promise<Emptied> {
  await migrate(pool)
  await pool.query(fillText(each.key), [count, ENVELOPE])
  await pool.query(each.analyzed === true ? 'vacuum analyze' : 'vacuum')
  const open = await pool.connect()
  if (each.besideTransaction === true) {
    await open.query('begin isolation level repeatable read')
    await open.query('select count(*) from onceward.outbox_leases')
  }
  const measured = watch(count * SHARE)
  const relay = await startRelay({
    pool,
    destinations: { somebody: measured.destination },
    logger: QUIET,
  })
  const answer = await measured.over
  await relay.drain()
  await open.query('rollback')
  open.release()
  return answer
}

const ENVELOPE = '{"source":"bench","type":"pay","headers":{},"isJson":true}'

const fillText = (key: string): string =>
  `insert into onceward.outbox_messages (bucket, message_id, destination, key, envelope, payload)
   select abs(hashtext(key)) % 64, gen_random_uuid()::text, 'somebody', convert_to(key, 'UTF8'), $2::bytea, convert_to('{"cents":' || n || '}', 'UTF8')
   from (select n, ${key} as key from generate_series(1, $1::int) n) made order by n`

/** A broker that confirms at once, unless it refuses the key. */
function watch(wanted: number): {
  readonly destination: Destination
  readonly over: Promise<Emptied>
} {
  const over = Promise.withResolvers<Emptied>()
  const startedAt = performance.now()
  let [published, lastAt, longestPauseMs] = [0, startedAt, 0]
  const end = (): void => {
    const now = performance.now()
    longestPauseMs = Math.max(longestPauseMs, now - lastAt)
    over.resolve({ rate: (published * 1_000) / (now - startedAt), longestPauseMs })
  }
  const timer = setTimeout(end, LONGEST_MS)
  /** As a call of Kafka is answered: behind a message that is refused, nothing of its key is sent. */
  const answersOf = (messages: readonly OutgoingMessage[]): Confirmation[] => {
    const stopped = new Set<string>()
    return messages.map(({ key = '' }) => {
      if (!key.startsWith('refused')) return undefined
      const isFirst = !stopped.has(key)
      stopped.add(key)
      return isFirst ? { refused: new Error('422') } : { unknown: new Error('not sent') }
    })
  }
  const publish: Destination['publish'] = async (messages) => {
    const answers = answersOf(messages)
    const confirmed = answers.filter((one) => one === undefined).length
    if (confirmed > 0) {
      const now = performance.now()
      longestPauseMs = Math.max(longestPauseMs, now - lastAt)
      lastAt = now
    }
    published += confirmed
    if (published >= wanted) {
      clearTimeout(timer)
      end()
    }
    return answers
  }
  return { over: over.promise, destination: { batch: 500, keepsOrder: true, publish } }
}
