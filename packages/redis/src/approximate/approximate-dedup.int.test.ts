import { randomUUID } from 'node:crypto'
import { ConfigurationError, createGuard, type GuardOptions } from '@onceward/core'
import { memoryInbox, memoryLeases, toDelivery } from '@onceward/core/memory'
import type { EventId, LeaseSession } from '@onceward/core/ports'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { newClaim, silent } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testRegistration } from '../fixtures/registration.ts'
import {
  type ApproximateDedupOptions,
  approximateDedup,
  type RedisDedup,
} from './approximate-dedup.ts'

let server: Server<RedisConnection>
let client: Redis

beforeAll(async () => {
  server = await redis({ native: true })
  client = new Redis(server.connection.port)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

const HOUR_MS = 3_600_000
const dedupOf = (over: Partial<ApproximateDedupOptions> = {}): RedisDedup =>
  approximateDedup({ redis: client, windowMs: HOUR_MS, ...over })

async function sessionOf(dedup: RedisDedup): Promise<LeaseSession> {
  const session = await dedup.asLeases().open?.(testRegistration({ consumer: randomUUID() }))
  if (session === undefined) throw new Error('no session')
  return session
}

/** @param partitions - Fewer of them make their filters grow by fewer ids. */
const newIds = (count: number, partitions = 256): readonly EventId[] =>
  Array.from({ length: count }, (_, n) => {
    const partition = (n % partitions).toString(16).padStart(2, '0')
    return `${partition}${randomUUID().slice(2)}` as EventId
  })

async function add(session: LeaseSession, ids: readonly EventId[]): Promise<void> {
  for (let at = 0; at < ids.length; at += 500) {
    const done = ids.slice(at, at + 500).map((id) => ({ id, ownerToken: newClaim().ownerToken }))
    await session.complete(done, HOUR_MS)
  }
}

async function known(session: LeaseSession, ids: readonly EventId[]): Promise<number> {
  let count = 0
  for (let at = 0; at < ids.length; at += 500) {
    const answers = await session.claim(ids.slice(at, at + 500).map((id) => newClaim({ id })))
    count += answers.filter(({ kind }) => kind === 'duplicate').length
  }
  return count
}

describe.each([undefined, 0.01])('with the error rate %s', (errorRate) => {
  test('a copy of a done event is dropped, and a failed event runs again until its attempts are spent', async () => {
    const runs: string[] = []
    const guard = createGuard(
      {
        ...{ consumer: randomUUID(), logger: silent, retry: { attempts: 2 } },
        dedup: dedupOf({ errorRate }),
      },
      async ({ key }) => {
        runs.push(key)
        if (key === 'bad') throw new Error('no')
      },
    )
    const good = toDelivery({}, { headers: { 'idempotency-key': 'good' } })
    expect(await guard.process(good)).toMatchObject({ by: 'processed' })
    expect(await guard.process(good)).toMatchObject({ by: 'duplicate' })
    const bad = toDelivery({}, { headers: { 'idempotency-key': 'bad' } })
    expect(await guard.process(bad)).toMatchObject({ kind: 'defer', reason: 'failed' })
    expect(await guard.process(bad)).toMatchObject({ kind: 'dead-letter' })
    expect(runs).toEqual(['good', 'bad', 'bad'])
  })

  test('no done event is forgotten within its window, and new ones are taken for done as rarely as stated', async () => {
    const dedup = dedupOf({ errorRate })
    const session = await sessionOf(dedup)
    // A thousand for each filter, which has three layers then.
    const done = newIds(8_000, 8)
    await add(session, done)
    expect(await known(session, done)).toBe(done.length)
    const others = newIds(12_000, 8)
    const wrong = await known(session, others)
    const { bound, hits, probes } = dedup.falsePositives()
    expect(wrong / others.length).toBeLessThanOrEqual(bound)
    expect(hits).toBeLessThanOrEqual(probes / 10)
    expect(probes).toBe(40)
    // The figure is one: it is not always zero.
    if (errorRate !== undefined) expect(wrong).toBeGreaterThan(0)
  })

  test('an event is new again after its window', async () => {
    const session = await sessionOf(dedupOf({ errorRate, windowMs: 1_000, buckets: 2 }))
    const ids = newIds(3)
    await add(session, ids)
    expect(await known(session, ids)).toBe(3)
    await until(async () => (await known(session, ids)) === 0, { deadlineMs: 20_000 })
  })
})

test('a filter counts the false positives that its probes find', async () => {
  const dedup = dedupOf({ errorRate: 0.5 })
  const session = await sessionOf(dedup)
  await add(session, newIds(40_000))
  for (let n = 0; n < 400; n += 1) await session.claim([])
  const { bound, hits, probes } = dedup.falsePositives()
  expect(probes).toBe(400)
  expect(hits).toBeGreaterThan(0)
  expect(hits / probes).toBeLessThanOrEqual(bound)
})

const handler = async (): Promise<void> => undefined

test.each<[string, () => object, RegExp]>([
  ['beside an inbox', () => ({ inbox: memoryInbox(), dedup: dedupOf() }), /would be lost/],
  [
    'beside leases',
    () => ({ leases: memoryLeases(), dedup: dedupOf(), onTakeover: 'retry' }),
    /would be lost/,
  ],
  ['as leases', () => ({ leases: dedupOf(), onTakeover: 'retry' }), /`leases`/],
  ['with onTakeover', () => ({ dedup: dedupOf(), onTakeover: 'retry' }), /keeps no owners/],
  [
    'with a shared transaction',
    () => ({ dedup: dedupOf(), transaction: 'batch' }),
    /`transaction`/,
  ],
  ['that is a lease store', () => ({ dedup: memoryLeases() }), /approximate dedup/],
  ['without a window', () => ({ dedup: dedupOf({ windowMs: 0 }) }), /windowMs/],
  ['with half a bucket', () => ({ dedup: dedupOf({ buckets: 0.5 }) }), /buckets/],
  ['with an error rate of one', () => ({ dedup: dedupOf({ errorRate: 1 }) }), /errorRate/],
  ['of another client', () => ({ dedup: dedupOf({ redis: {} as never }) }), /approximateDedup/],
])('a dedup %s is refused, with what to do', (_, options, message) => {
  const make = () => createGuard({ consumer: 'c', ...options() } as GuardOptions<unknown>, handler)
  expect(make).toThrow(ConfigurationError)
  expect(make).toThrow(message)
})

test('the types refuse it beside an inbox and beside leases', () => {
  const dedup = dedupOf()
  const common = { consumer: 'clicks', dedup }
  createGuard(common, handler)
  // @ts-expect-error -- a false positive would lose an event of the inbox
  expect(() => createGuard({ ...common, inbox: memoryInbox() }, handler)).toThrow()
  // @ts-expect-error -- and of leases
  expect(() => createGuard({ ...common, leases: memoryLeases() }, handler)).toThrow()
})
