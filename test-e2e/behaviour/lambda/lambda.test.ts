import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { SqsBatchResponse } from '@onceward/lambda'
import { migrate } from '@onceward/postgres'
import {
  database,
  type RedisConnection,
  redis,
  type Server,
  turnOf,
  until,
} from '@onceward/testing'
import * as esbuild from 'esbuild'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Charge } from './billing-function.ts'
import { Environment, type Invoked } from './environment.ts'

const LEASE_MS = 1_000
const EXTERNAL = ['pg-native', 'pg-cloudflare']
// What CommonJS packages in an ESM bundle need: `require` of Node's own modules.
const BANNER =
  "import { createRequire as _createRequire } from 'node:module'; const require = _createRequire(import.meta.url);"

const FORMATS = ['esm', 'cjs'] as const
type Format = (typeof FORMATS)[number]

let directory: string
let cache: Server<RedisConnection>

async function bundle(name: string, format: Format): Promise<string> {
  const isEsm = format === 'esm'
  const outfile = join(directory, `${name}.${isEsm ? 'mjs' : 'cjs'}`)
  await esbuild.build({
    entryPoints: [join(import.meta.dirname, `${name}.ts`)],
    ...{ bundle: true, minify: true, platform: 'node', format, outfile, logLevel: 'error' },
    ...{ conditions: ['@onceward/source', 'node'], external: EXTERNAL },
    ...(isEsm ? { banner: { js: BANNER } } : {}),
  })
  return outfile
}

const files: Record<string, string> = {}
beforeAll(async () => {
  // Far from the repository: what the bundle does not hold is not found.
  directory = await mkdtemp(join(tmpdir(), 'onceward-lambda-'))
  cache = await redis()
  files['bootstrap'] = await bundle('bootstrap', 'esm')
  for (const format of FORMATS) files[format] = await bundle('billing-function', format)
})
afterAll(async () => {
  await cache.stop()
  await rm(directory, { recursive: true, force: true })
})

interface Options {
  readonly format?: Format
  readonly connections?: number
}

/** A database, and environments of one exported function. */
async function testbed(name: string, { connections = 2, format = 'esm' }: Options = {}) {
  const { url } = await database()
  const pool = new Pool({ connectionString: url, max: 2 })
  await migrate(pool)
  await pool.query('create table effects (id text, source text)')
  const config = { databaseUrl: `${url}${url.includes('?') ? '&' : '?'}application_name=function` }
  const shared = { ...config, redisPort: cache.connection.port, connections, leaseMs: LEASE_MS }
  const open: Environment[] = []
  return {
    pool,
    start: async (): Promise<Environment> => {
      const environment = await Environment.start(
        files['bootstrap'] as string,
        `${files[format]}#${name}`,
        shared,
      )
      open.push(environment)
      return environment
    },
    effects: async (): Promise<Readonly<Record<string, number>>> => {
      const text =
        "select id, count(*)::int as n from effects where source <> 'handler' group by id"
      const { rows } = await pool.query<{ id: string; n: number }>(text)
      return Object.fromEntries(rows.map(({ id, n }) => [id, n]))
    },
    /** States of the connections of the function. */
    connections: async (): Promise<readonly string[]> => {
      const text =
        "select state from pg_stat_activity where application_name = 'function' and datname = current_database()"
      return (await pool.query<{ state: string }>(text)).rows.map(({ state }) => state)
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await Promise.all(open.map((environment) => environment[Symbol.asyncDispose]()))
      await pool.end()
    },
  }
}

const sqsRecord = (charge: Charge, count = 1): object => ({
  messageId: charge.id,
  receiptHandle: `${charge.id}-${count}`,
  body: JSON.stringify(charge),
  attributes: { ApproximateReceiveCount: String(count), SentTimestamp: String(Date.now()) },
  messageAttributes: { 'idempotency-key': { dataType: 'String', stringValue: charge.id } },
  eventSource: 'aws:sqs',
  eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:orders',
})

const sqsEvent = (...charges: readonly Charge[]): object => ({
  Records: charges.map((charge) => sqsRecord(charge)),
})

function failuresOf(invoked: Invoked): readonly string[] {
  if (invoked.kind !== 'answered') throw new Error(JSON.stringify(invoked))
  const { batchItemFailures } = invoked.response as SqsBatchResponse
  return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)
}

const PATIENT = { everyMs: 100, deadlineMs: 60_000 }

for (const [index, format] of FORMATS.entries()) {
  const turn = turnOf(index, { of: FORMATS.length })
  describe.concurrent(`a function bundled as ${format}`, turn, () => {
    test('survives freezes that are longer than its lease, and holds nothing while it is frozen', async () => {
      await using lambda = await testbed('sqs', { format })
      const environment = await lambda.start()
      const event = sqsEvent({ id: 'a' }, { id: 'b', failures: 1 })
      expect(failuresOf(await environment.invoke(event))).toEqual(['b'])
      await environment.frozen()
      expect(new Set(await lambda.connections())).toEqual(new Set(['idle']))
      expect((await lambda.connections()).length).toBeLessThanOrEqual(2)
      await pause(LEASE_MS * 1.5)
      expect(failuresOf(await environment.invoke(event))).toEqual([])
      await pause(LEASE_MS * 1.5)
      expect(failuresOf(await environment.invoke(event))).toEqual([])
      expect(await lambda.effects()).toEqual({ a: 1, b: 1 })
    })
  })
}

// Red when the end of a connection that nobody uses ends the process as it thaws.
test.concurrent.each([1, 2])(
  'connections that end while the process is frozen cost at most a redelivery, with %d connections',
  async (connections) => {
    await using lambda = await testbed('sqs', { connections })
    const environment = await lambda.start()
    expect(failuresOf(await environment.invoke(sqsEvent({ id: 'first' })))).toEqual([])
    await environment.frozen()
    const { rowCount } = await lambda.pool.query(`
      select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'function' and datname = current_database()`)
    expect(rowCount).toBeGreaterThan(0)
    const event = sqsEvent({ id: 'second' }, { id: 'third' })
    await until(async () => failuresOf(await environment.invoke(event)).length === 0, PATIENT)
    expect(await lambda.effects()).toEqual({ first: 1, second: 1, third: 1 })
  },
)

test.concurrent.each([1, 2])(
  'a handler that outlives its invocation commits nothing when the process thaws, with %d connections',
  async (connections) => {
    await using lambda = await testbed('sqs', { connections })
    const first = await lambda.start()
    const charge = { id: 'slow', takesMs: 4_000 }
    await first.frozen()
    const startedAt = performance.now()
    // The function answers a second after its start. A busy machine gets two more until it is killed.
    const invoked = await first.invoke(sqsEvent(charge, { id: 'next' }), 3_000)
    expect(failuresOf(invoked)).toContain('slow')
    expect(performance.now() - startedAt).toBeLessThan(3_000)
    await first.frozen()
    await pause(LEASE_MS * 1.5)
    // Another environment gets the message again, while the first one is frozen.
    const second = await lambda.start()
    expect(failuresOf(await second.invoke(sqsEvent(charge)))).toEqual([])
    // The first one goes on with what it was doing.
    expect(failuresOf(await first.invoke(sqsEvent({ id: 'last', takesMs: 2_500 })))).toEqual([])
    expect(failuresOf(await first.invoke(sqsEvent({ id: 'next' })))).toEqual([])
    expect(await lambda.effects()).toEqual({ slow: 1, last: 1, next: 1 })
  },
)

test.concurrent.each(['sqs', 'batches', 'behindMiddy'] as const)(
  'environments that are killed in the middle lose nothing and double nothing: %s',
  async (name) => {
    await using lambda = await testbed(name)
    const counts = new Map<string, number>()
    let sent = 0
    const send = (some: number): void => {
      for (const end = sent + some; sent < end; sent++) counts.set(`m${sent}`, 0)
    }
    send(30)
    let environment = await lambda.start()
    let kills = 0
    // A small SQS: what was answered as done is deleted, everything else comes again.
    for (let round = 0; counts.size > 0; round++) {
      if (round > 60) throw new Error(`${[...counts.keys()]} never ended:\n${environment.log}`)
      const ids = [...counts.keys()].slice(0, 10)
      for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
      const Records = ids.map((id) => sqsRecord({ id, takesMs: 20 }, counts.get(id)))
      const invoking = environment.invoke({ Records })
      await environment.thawed()
      // A batch takes 200 ms at least, so nearly every kill finds a run in the middle.
      const killer = kills < 5 ? setTimeout(() => environment.kill(), 30 + 30 * kills) : undefined
      const invoked = await invoking
      clearTimeout(killer)
      if (invoked.kind === 'killed') {
        kills += 1
        environment = await lambda.start()
        continue
      }
      const failures = failuresOf(invoked)
      for (const id of ids) {
        const count = counts.get(id) ?? 0
        counts.delete(id)
        // Failed messages go to the end of the queue.
        if (failures.includes(id)) counts.set(id, count)
      }
      if (failures.length > 0) await pause(100)
      // On a busy machine a batch may end before its kill.
      if (counts.size === 0 && kills < 5) send(10)
    }
    expect(kills).toBe(5)
    const effects = await lambda.effects()
    expect(Object.keys(effects)).toHaveLength(sent)
    expect(new Set(Object.values(effects))).toEqual(new Set([1]))
  },
)

const NOT_DONE = /^1 of 1 messages are not done/

const bytes = (text: string): string => Buffer.from(text).toString('base64')

const EVENTS: Readonly<Record<'kafka' | 'sns' | 'eventBridge', (charge: Charge) => object>> = {
  kafka: (charge) => ({
    eventSource: 'aws:kafka',
    records: {
      'orders-0': [
        {
          ...{ topic: 'orders', partition: 0, offset: 5, timestamp: 1_763_805_600_000 },
          ...{ key: bytes('k'), value: bytes(JSON.stringify(charge)) },
          headers: [{ 'idempotency-key': [...Buffer.from(charge.id)] }],
        },
      ],
    },
  }),
  sns: (charge) => ({
    Records: [
      {
        EventSource: 'aws:sns',
        Sns: {
          ...{ Type: 'Notification', MessageId: charge.id, TopicArn: 'arn:aws:sns:r:1:orders' },
          ...{ Message: JSON.stringify(charge), MessageAttributes: {} },
        },
      },
    ],
  }),
  eventBridge: (charge) => ({
    ...{ version: '0', id: charge.id, 'detail-type': 'OrderPlaced', source: 'my.shop' },
    ...{ account: '1', time: '2026-11-22T10:00:00Z', region: 'r', resources: [], detail: charge },
  }),
}

test.concurrent.each(['kafka', 'sns', 'eventBridge'] as const)(
  '%s fails until its event is done, also after a kill, and then is a duplicate',
  async (name) => {
    await using lambda = await testbed(name)
    const event = EVENTS[name]({ id: 'e', failures: 1, hangsAt: 2 })
    const first = await lambda.start()
    const notDone = { kind: 'failed', errorMessage: expect.stringMatching(NOT_DONE) }
    expect(await first.invoke(event)).toMatchObject(notDone)
    // The wait before the second attempt is drawn: invocations before its end fail and run nothing.
    await Promise.all([
      until(async () => (await first.invoke(event)).kind === 'killed', PATIENT),
      until(() => first.log.includes('e hangs'), PATIENT).then(() => first.kill()),
    ])
    const second = await lambda.start()
    await until(async () => {
      const invoked = await second.invoke(event)
      if (invoked.kind !== 'answered') throw new Error(JSON.stringify(invoked))
      return true
    }, PATIENT)
    expect(await second.invoke(event)).toMatchObject({ kind: 'answered' })
    expect(await lambda.effects()).toEqual({ e: 1 })
  },
)
