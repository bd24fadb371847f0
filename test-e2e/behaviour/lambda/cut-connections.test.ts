// @module-tag nightly

import { createGuard } from '@onceward/core'
import { lambdaSqs } from '@onceward/lambda'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { database, proxy } from '@onceward/testing'
import { Pool } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'

const MESSAGES = ['a1', 'b1', 'a2', 'a3', 'b2']
/** More than a function sends or gets for these messages. */
const PIECES = 22
const ROUNDS = 40

const quiet = (): void => undefined
const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet }
let url: string
let direct: Pool

beforeAll(async () => {
  url = (await database()).url
  direct = new Pool({ connectionString: url, max: 4 })
  await migrate(direct)
  await direct.query('create table effects (n serial, consumer text, id text)')
})
afterAll(() => direct.end())

/** A message of a FIFO queue, named by its group and its number in it. */
const recordOf = (id: string, receives: number): object => ({
  ...{ messageId: id, receiptHandle: id, body: '{}', eventSource: 'aws:sqs' },
  attributes: {
    ...{ ApproximateReceiveCount: String(receives), SentTimestamp: '1763805600000' },
    ...{ MessageGroupId: id.slice(0, 1), SequenceNumber: id.slice(1) },
  },
  messageAttributes: { 'idempotency-key': { dataType: 'String', stringValue: id } },
  eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:orders.fifo',
})

interface Cut {
  readonly consumer: string
  readonly piece: number
  readonly direction: 'up' | 'down'
  readonly connections: number
}

async function effectsOf(consumer: string): Promise<readonly string[]> {
  const text = 'select id from effects where consumer = $1 order by n'
  const { rows } = await direct.query<{ id: string }>(text, [consumer])
  return rows.map(({ id }) => id)
}

/** Delivers until nothing comes again. Answers what was called done before its effect was committed. */
async function deliver({
  connections,
  consumer,
  direction,
  piece,
}: Cut): Promise<readonly string[]> {
  const { hostname, port } = new URL(url)
  await using link = await proxy({ host: hostname, port: Number(port) })
  let seen = 0
  link.onData = (way) => {
    if (way !== direction) return 'pass'
    seen += 1
    return seen === piece ? 'cut' : 'pass'
  }
  const through = new URL(url)
  through.host = `127.0.0.1:${link.port}`
  const pool = new Pool({ connectionString: String(through), max: connections })
  pool.on('error', quiet)
  const retry = { baseMs: 10, maxMs: 20 }
  const guard = createGuard(
    { consumer, inbox: pgInbox(pool), retry, logger },
    async ({ key }, { tx }) => {
      await tx.query('insert into effects (consumer, id) values ($1, $2)', [consumer, key])
    },
  )
  const handler = lambdaSqs(guard)
  const lost: string[] = []
  let queue = MESSAGES
  for (let round = 1; queue.length > 0; round++) {
    if (round > ROUNDS) throw new Error(`${consumer}: ${queue} never ended`)
    const Records = queue.map((id) => recordOf(id, round))
    const { batchItemFailures } = await handler({ Records })
    const again = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier))
    const committed = await effectsOf(consumer)
    lost.push(...queue.filter((id) => !again.has(id) && !committed.includes(id)))
    queue = queue.filter((id) => again.has(id))
    // The breaker lets the next probe through after a while.
    if (queue.length > 0) await new Promise((resolve) => setTimeout(resolve, 200))
  }
  await guard.close()
  await pool.end()
  return lost
}

test.each([
  ['up', 1],
  ['up', 2],
  ['down', 1],
  ['down', 2],
] as const)(
  'a connection that is cut at any piece of data, %sstream of %d connections: every effect once, in order, and nothing is called done too early',
  async (direction, connections) => {
    const cuts = Array.from({ length: PIECES }, (_, at) => ({
      ...{ piece: at + 1, direction, connections },
      consumer: `${direction}-${connections}-${at + 1}`,
    }))
    for (let at = 0; at < cuts.length; at += 6) {
      const some = cuts.slice(at, at + 6)
      const lost = await Promise.all(some.map(deliver))
      expect(lost.flat()).toEqual([])
    }
    for (const { consumer } of cuts) {
      const effects = await effectsOf(consumer)
      const inGroup = (group: string) => effects.filter((id) => id.startsWith(group))
      expect([...inGroup('a'), ...inGroup('b')], consumer).toEqual(['a1', 'a2', 'a3', 'b1', 'b2'])
    }
  },
  120_000,
)
