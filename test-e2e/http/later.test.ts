// @module-tag nightly

import { randomUUID } from 'node:crypto'
import { FatalError } from '@onceward/core'
import { createHttpGuard, type HttpGuard } from '@onceward/http'
import { createWebhookGuard } from '@onceward/http/webhooks'
import { deadLetters, migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { proxy, until } from '@onceward/testing'
import { Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { silent } from '../../packages/http/src/fixtures/charges.ts'
import type { HttpHandler } from '../../packages/http/src/options.ts'
import { answer, cli } from '../../packages/onceward/src/fixtures/cli.ts'
import { targetOf, through } from '../support/crash/wire-faults.ts'
import { type Ledger, openLedger } from './scenario.ts'

const MIB = 1_024 * 1_024
let ledger: Ledger

beforeAll(async () => {
  ledger = await openLedger()
})
afterAll(() => ledger[Symbol.asyncDispose]())
beforeEach(() => ledger.pool.query('truncate charges'))

type Handler = HttpHandler<unknown, PoolClient>

const charge: Handler = async ({ key }, { tx }) => {
  await tx.query('insert into charges (id, key, cents) values ($1, $2, 1)', [randomUUID(), key])
}

interface Given {
  readonly url?: string
  readonly maxStoredBytes?: number
  readonly attempts?: number
}

/** A guard with a pool of its own, as each process has one. */
function laterGuard(
  consumer: string,
  handler: Handler,
  { attempts = 10, maxStoredBytes, url = ledger.url }: Given = {},
): HttpGuard {
  return createWebhookGuard(
    {
      ...{ consumer, run: 'later', logger: silent, maxBodyBytes: 16 * MIB },
      inbox: pgInbox({ connectionString: url, max: 6 }, { maxStoredBytes }),
      retry: { attempts, baseMs: 1, maxMs: 10 },
      decode: (bytes) => bytes.byteLength,
      requestHeaders: ['x-shop'],
      verify: ({ headers }) => {
        return { kind: 'verified', eventId: headers.get('x-id') ?? undefined }
      },
    },
    handler,
  )
}

async function deliver(guard: HttpGuard, id: string, body: Uint8Array<ArrayBuffer>) {
  const headers = { 'x-id': id, 'x-shop': 'é', authorization: 'secret' }
  const request = new Request('http://localhost/hooks?a=1', { method: 'POST', headers, body })
  const response = await guard.fetch(request)
  return { status: response.status, text: await response.text() }
}

const text = (value: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(value)

const rowsOf = async (consumer: string): Promise<readonly string[]> => {
  const { rows } = await ledger.pool.query(
    `select p.state from onceward.processed_events p join onceward.consumers c on c.id = p.consumer_id
     where c.name = $1`,
    [consumer],
  )
  return rows.map(({ state }) => state)
}

test.each([0, 600, 5 * MIB])(
  'a body of %i bytes is the same in the first run, in a dead letter, and in its replay',
  async (size) => {
    const consumer = `bytes-${size}`
    const body = new Uint8Array(size).map((_, index) => (index * 31) % 251)
    const seen: { readonly bytes: Uint8Array; readonly headers: object; readonly url: string }[] =
      []
    const guard = laterGuard(consumer, async (event, context) => {
      const { bytes, headers, url } = event.request
      seen.push({ bytes, headers: Object.fromEntries(headers), url })
      if (seen.length === 1) throw new FatalError('look at this one')
      await charge(event, context)
    })
    expect(await deliver(guard, 'e', body)).toEqual({ status: 202, text: '' })
    const letters = deadLetters(ledger.pool)
    const letter = await until(async () => {
      for await (const each of letters.list({ consumer })) return each
      return undefined
    })
    expect(letter).toMatchObject({ key: 'e', reason: 'fatal', attempts: 1 })
    expect(Buffer.from(letter.delivery.body).equals(Buffer.from(body))).toBe(true)
    expect(letter.delivery.headers).toEqual({ 'x-shop': 'é' })
    expect(await deliver(guard, 'e', body)).toMatchObject({ status: 202 })
    expect(seen).toHaveLength(1)
    await letters.replay(letter.id)
    await until(async () => (await ledger.charges())['e'] === 1)
    for (const { bytes, headers, url } of seen) {
      expect(Buffer.from(bytes).equals(Buffer.from(body))).toBe(true)
      expect([headers, url]).toEqual([{ 'x-shop': 'é' }, 'http://localhost/hooks?a=1'])
    }
    await guard.close()
    expect(seen).toHaveLength(2)
    expect(await rowsOf(consumer)).toEqual(['d'])
  },
)

test('a delivery that the inbox would not store whole is answered 413, and nothing of it is stored', async () => {
  const guard = laterGuard('large', charge, { maxStoredBytes: 2 * MIB })
  const refused = await deliver(guard, 'e', new Uint8Array(2 * MIB))
  expect(refused.status).toBe(413)
  expect(JSON.parse(refused.text)).toMatchObject({ type: 'urn:onceward:body-too-large' })
  expect(await rowsOf('large')).toEqual([])
  expect(await deliver(guard, 'e', text('x'))).toMatchObject({ status: 202 })
  // Now it is known, so its size says nothing.
  expect(await deliver(guard, 'e', new Uint8Array(2 * MIB))).toMatchObject({ status: 202 })
  await until(async () => (await rowsOf('large'))[0] === 'd')
  await guard.close()
  expect(await ledger.charges()).toEqual({ e: 1 })
})

test('several processes that accept and look at the same time run each delivery once', async () => {
  const guards = Array.from({ length: 4 }, () => laterGuard('many', charge))
  const ids = Array.from({ length: 200 }, (_, index) => `e${index}`)
  const copies = ids.flatMap((id) => guards.map((guard) => ({ guard, id })))
  const answers = await Promise.all(copies.map(({ guard, id }) => deliver(guard, id, text(id))))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
  await until(async () => Object.keys(await ledger.charges()).length === ids.length)
  await Promise.all(guards.map((guard) => guard.close()))
  expect(await ledger.charges()).toEqual(Object.fromEntries(ids.map((id) => [id, 1])))
  expect(new Set(await rowsOf('many'))).toEqual(new Set(['d']))
})

test('while the database is away every delivery is answered 503, and none of them is stored', async () => {
  const target = targetOf(ledger.url)
  const way = await proxy(target)
  const guard = laterGuard('away', charge, { url: through(ledger.url, way) })
  expect(await deliver(guard, 'first', text('x'))).toMatchObject({ status: 202 })
  await until(async () => (await ledger.charges())['first'] === 1)
  await way.stop()
  for (const id of ['a', 'b']) {
    const { status, text: problem } = await deliver(guard, id, text('x'))
    expect([status, JSON.parse(problem).type]).toEqual([503, 'urn:onceward:unavailable'])
  }
  expect(await rowsOf('away')).toEqual(['d'])
  await guard.close()
})

test('health, status, explain and dead-letters tell what was accepted, waits and died', async () => {
  const consumer = 'told'
  const { url } = ledger
  const gate = Promise.withResolvers<void>()
  const guard = laterGuard(
    consumer,
    async ({ key }) => {
      if (key === 'slow') return gate.promise
      throw new Error(`no account for ${key}`)
    },
    { attempts: 1 },
  )
  await deliver(guard, 'slow', text('1'))
  await deliver(guard, 'dies', text('2'))
  const listed = (): Promise<{ readonly stdout: string }> =>
    cli(['dead-letters', 'list', '--consumer', consumer], { url })
  await until(async () => (await listed()).stdout.includes('attempts-spent'))
  // A dead letter waits for nobody: there is no other place for it.
  await until(() => guard.health().waiting?.deliveries === 1)
  const explained = await cli(['explain', 'dies', '--consumer', consumer], { url })
  expect(explained.stdout).toMatch(/dead-lettered \(attempts-spent\) after 1 attempt\b/)
  expect(explained.stdout).toMatch(/no account for dies/)
  gate.resolve()
  await until(() => guard.health().waiting?.deliveries === 0)
  await guard.close()
  // Every guard of the consumer is closed, so no process runs the event that is parked below.
  const other = laterGuard(consumer, charge)
  await other.open()
  await other.close()
  await ledger.pool.query(`
    update onceward.processed_events p set state = 'w' from onceward.failed_events f
    where f.event_id = p.event_id and f.key = 'dies'`)
  await ledger.pool.query(
    "update onceward.failed_events set reason = null, attempt = 0 where key = 'dies'",
  )
  const waits = await answer<{ readonly chapters: readonly { readonly what: string }[] }>(
    ['explain', 'dies', '--consumer', consumer],
    { url },
  )
  expect(waits.chapters.map(({ what }) => what)).toContain(
    'attempt 1 is due, from PostgreSQL (parked)',
  )
})

test('a process that starts before its tables are made runs what it accepts once they are', async () => {
  const { rows } = await ledger.pool.query('select current_database() as name')
  const name = `late_${rows[0].name}`
  await ledger.pool.query(`create database ${name}`)
  const url = new URL(ledger.url)
  url.pathname = `/${name}`
  const guard = laterGuard(
    'late',
    async ({ key }, { tx }) => {
      await tx.query('create table if not exists ran (key text)')
      await tx.query('insert into ran values ($1)', [key])
    },
    { url: url.href },
  )
  expect((await deliver(guard, 'e', text('1'))).status).toBe(503)
  const pool = new Pool({ connectionString: url.href })
  // Its connections may still be closing when the database goes.
  pool.on('error', () => undefined)
  await migrate(pool)
  await until(async () => (await deliver(guard, 'e', text('1'))).status === 202)
  const isOver = async () => (await pool.query('select key from ran')).rowCount === 1
  await until(isOver)
  await guard.close()
  await pool.end()
  await ledger.pool.query(`drop database ${name} with (force)`)
})

// Red when the delivery of a route is stored without its request: the replay has nothing to run.
test('a dead letter of a guarded route is replayed with its request, and a retry gets the answer', async () => {
  const consumer = 'route'
  const seen: string[] = []
  const guard = createHttpGuard(
    {
      ...{ consumer, tenant: 'none', logger: silent },
      inbox: pgInbox({ connectionString: ledger.url, max: 6 }),
    },
    async ({ key, request }, { tx }) => {
      seen.push(`${request.method} ${request.url} ${request.headers.get('authorization')}`)
      if (seen.length === 1) throw new FatalError('look at this one')
      await tx.query('insert into charges (id, key, cents) values ($1, $2, 1)', [randomUUID(), key])
      return { status: 201, body: { key } }
    },
  )
  await guard.open()
  // A process died in its run.
  await ledger.pool.query(
    `with event as (
       insert into onceward.processed_events (event_id, fingerprint, consumer_id, state)
       select onceward.event_id($1, '', 'k'), 0, id, 'r' from onceward.consumers where name = $1
       returning event_id, consumer_id
     )
     insert into onceward.failed_events (event_id, consumer_id, attempt, counted_at, key)
     select event_id, consumer_id, 1, now() - interval '1 minute', 'k' from event`,
    [consumer],
  )
  const send = () =>
    guard.fetch(
      new Request('http://localhost/charges', {
        method: 'PUT',
        headers: {
          'idempotency-key': 'k',
          'content-type': 'application/json',
          authorization: 'secret',
        },
        body: '{}',
      }),
    )
  expect((await send()).status).toBe(500)
  const letters = deadLetters(ledger.pool)
  for await (const { id } of letters.list({ consumer })) await letters.replay(id)
  await until(async () => (await ledger.charges())['k'] === 1)
  const again = await send()
  expect([again.status, await again.json()]).toEqual([201, { key: 'k' }])
  expect(seen).toEqual(['PUT http://localhost/charges secret', 'PUT http://localhost/charges null'])
  await guard.close()
})
