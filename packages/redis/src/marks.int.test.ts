import { randomUUID } from 'node:crypto'
import { type LeaseSession, type Runtime, systemRuntime } from '@onceward/core'
import { type RedisConnection, redis, type Server } from '@onceward/testing'
import { newClaim, newToken, OTHER_PAYLOAD } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type MovedScripts, movedScripts } from './fixtures/clock.ts'
import { type TestRegistration, testHistory, testRegistration } from './fixtures/registration.ts'
import { leasesOf } from './lease-store.ts'

let server: Server<RedisConnection>
let client: Redis

beforeAll(async () => {
  server = await redis({ native: true, settings: { appendonly: 'no' } })
  client = new Redis(server.connection.port)
})
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

const HOUR_MS = 3_600_000

interface Beside extends MovedScripts {
  readonly told: TestRegistration['told']
  readonly session: LeaseSession
  readonly history: { name: string }
  /** Lets time pass on the clock of the guard. */
  wait(ms: number): void
}

/** A guard beside an inbox. */
async function beside(): Promise<Beside> {
  const moved = movedScripts()
  const history = testHistory()
  let waitedMs = 0
  const runtime: Runtime = {
    ...systemRuntime,
    monotonic: () => systemRuntime.monotonic() + waitedMs,
  }
  const options = { namespace: randomUUID(), budgetMs: 30_000 }
  const leases = leasesOf(client, options, moved.scripts)
  const { identity } = history
  const registration = testRegistration({ identity, runtime })
  const session = await leases.open?.(registration)
  if (session === undefined) throw new Error('no session')
  const wait = (ms: number): void => {
    waitedMs += ms
  }
  return { ...moved, told: registration.told, session, history, wait }
}

const again = ({ id }: { readonly id: string }) => newClaim({ id: id as never })
const first = { kind: 'acquired', by: 'first', attempt: 1 }

async function done(session: LeaseSession, result?: string): Promise<ReturnType<typeof newClaim>> {
  const claim = newClaim()
  await session.claim([claim])
  await session.complete([{ ...claim, result }], HOUR_MS)
  return claim
}

describe('with an inbox', () => {
  it('a done event is a duplicate, and the same key with another payload is a conflict', async () => {
    const { session } = await beside()
    const event = await done(session)
    expect(await session.claim([again(event)])).toEqual([{ kind: 'duplicate' }])
    const other = { ...event, ownerToken: newToken(), fingerprint: OTHER_PAYLOAD }
    expect(await session.claim([other])).toEqual([{ kind: 'conflict' }])
  })

  it('a done event is remembered for at least one generation and at most two', async () => {
    const { session, pass } = await beside()
    const event = await done(session)
    pass(HOUR_MS)
    expect(await session.claim([again(event)])).toEqual([{ kind: 'duplicate' }])
    pass(HOUR_MS)
    expect(await session.claim([again(event)])).toEqual([first])
  })

  it('small results come from Redis, large results from PostgreSQL', async () => {
    const { session } = await beside()
    const [small, large] = [await done(session, 'é\0'), await done(session, 'x'.repeat(9_000))]
    expect(await session.claim([again(small)])).toEqual([{ kind: 'duplicate', result: 'é\0' }])
    expect(await session.claim([again(large)])).toEqual([first])
  })

  it('Redis stores no dead event, because only PostgreSQL says that an event is dead', async () => {
    const { session } = await beside()
    const claim = newClaim()
    await session.claim([claim])
    expect(await session.bury([{ ...claim, reason: 'fatal' }], HOUR_MS)).toEqual(['held'])
    expect(await session.claim([again(claim)])).toEqual([first])
  })

  it('trap T31: an event done in another history of PostgreSQL is not done', async () => {
    const { session, history, wait } = await beside()
    const event = await done(session)
    history.name = 'promoted'
    wait(5_001)
    expect(await session.claim([again(event)])).toEqual([first])
  })

  it('trap T31: a done mark is believed only while the history is known', async () => {
    const { session, history, wait } = await beside()
    const event = await done(session)
    const identity = Object.getOwnPropertyDescriptor(history, 'name')
    Object.defineProperty(history, 'name', {
      configurable: true,
      get: () => {
        throw new Error('Postgres is away')
      },
    })
    wait(4_900)
    expect(await session.claim([again(event)])).toEqual([{ kind: 'duplicate' }])
    wait(200)
    expect(await session.claim([again(event)])).toEqual([{ kind: 'unknown' }])
    expect(await session.claim([newClaim()])).toEqual([first])
    Object.defineProperty(history, 'name', identity as PropertyDescriptor)
    wait(1_000)
    expect(await session.claim([again(event)])).toEqual([{ kind: 'duplicate' }])
  })

  it('a claim held while the history changes still belongs to its owner', async () => {
    const { session, history, wait } = await beside()
    const mine = newClaim()
    await session.claim([mine])
    history.name = 'promoted'
    wait(5_001)
    await session.claim([newClaim()])
    expect(await session.renew([mine, newClaim()], 30_000)).toEqual(['held', 'lost'])
    expect(await session.complete([mine], HOUR_MS)).toEqual(['held'])
    // The event was committed in one of the two histories; Redis cannot know in which.
    expect(await session.claim([again(mine)])).toEqual([first])
  })
})

describe('keys of another program in the place of marks', () => {
  it.each([
    ['a list', (key: string) => client.rpush(key, 'theirs')],
    ['another text', (key: string) => client.set(key, 'theirs')],
  ])('%s is reported and stays, and done events are left to Postgres', async (_what, put) => {
    const { session, told } = await beside()
    await client.flushall()
    await done(session)
    const [known] = (await client.keys('*')).filter((key) => key.endsWith('}g'))
    const event = newClaim({ id: `${known?.slice(-4, -2)}${newClaim().id.slice(2)}` as never })
    await client.del(known ?? '')
    await put(known ?? '')
    const before = await client.dumpBuffer(known ?? '')
    await session.claim([event])
    expect(await session.complete([event], HOUR_MS)).toEqual(['held'])
    expect(await session.claim([again(event)])).toEqual([first])
    expect(await client.dumpBuffer(known ?? '')).toEqual(before)
    const key = `${known?.slice(0, -1)}[gm]*`
    expect(told.filter(({ level }) => level === 'warn')).toMatchObject([{ fields: { key } }])
  })

  it('a bucket of another type is reported and stays', async () => {
    const { session, told } = await beside()
    await client.flushall()
    const known = await done(session)
    const [bucket = ''] = (await client.keys('*')).filter((key) => /}m\d+:0$/.test(key))
    await client.del(bucket)
    await client.set(bucket, 'theirs')
    expect(await session.claim([again(known)])).toEqual([first])
    const event = newClaim({ id: `${known.id.slice(0, 2)}${newClaim().id.slice(2)}` as never })
    await session.claim([event])
    expect(await session.complete([event], HOUR_MS)).toEqual(['held'])
    expect(await client.get(bucket)).toBe('theirs')
    expect(told.filter(({ level }) => level === 'warn')).toHaveLength(1)
  })
})

describe('done marks', () => {
  it('need at most 45 bytes each, and all of them are found', async () => {
    const { session, pass } = await beside()
    const claims = Array.from({ length: 80_000 }, () => newClaim())
    const batches = Array.from({ length: 80 }, (_, index) =>
      claims.slice(index * 1_000, (index + 1) * 1_000),
    )
    await client.flushall()
    const before = await usedMemory()
    await doneInBatches(session, claims)
    const bytes = ((await usedMemory()) - before) / claims.length
    expect(bytes).toBeLessThanOrEqual(45)
    expect(await found(session, batches)).toBe(claims.length)
    // The next generation begins with the same number of buckets.
    pass(HOUR_MS)
    const next = Array.from({ length: 1_000 }, () => newClaim())
    await doneInBatches(session, next)
    expect(await found(session, [next, ...batches.slice(0, 10)])).toBe(11_000)
    expect(await client.ttl((await client.randomkey()) ?? '')).toBeGreaterThan(0)
  })

  it('of one partition have one place each while their buckets grow, and all keys expire', async () => {
    const { session } = await beside()
    await client.flushall()
    const claims = inOnePartition(12_000)
    await doneInBatches(session, claims)
    expect(await found(session, [claims])).toBe(claims.length)
    const buckets = (await client.keysBuffer('*')).filter((key) => /}m\d+:\d+$/.test(String(key)))
    const sizes = await Promise.all(buckets.map((bucket) => client.hlen(bucket)))
    expect(sizes.reduce((sum, size) => sum + size)).toBe(claims.length)
    // With more than 512 fields Redis would need six times the memory.
    expect(Math.max(...sizes)).toBeLessThan(400)
    expect(sizes.length).toBeGreaterThan(claims.length / 100)
    const ends = await Promise.all(buckets.map((bucket) => client.pttl(bucket)))
    expect(Math.min(...ends)).toBeGreaterThan(0)
    expect(Math.max(...ends)).toBeLessThanOrEqual(2 * HOUR_MS)
  })

  it('stay where they are if a key of another program is in the place of the next bucket', async () => {
    const { session } = await beside()
    await client.flushall()
    const claims = inOnePartition(2_000)
    await doneInBatches(session, claims.slice(0, 10))
    const [bucket = ''] = (await client.keys('*')).filter((key) => key.endsWith(':0'))
    const theirs = `${bucket.slice(0, -1)}1`
    await client.set(theirs, 'theirs')
    await doneInBatches(session, claims.slice(10))
    expect(await client.get(theirs)).toBe('theirs')
    expect(await found(session, [claims])).toBe(claims.length)
  })

  const inOnePartition = (count: number): readonly ReturnType<typeof newClaim>[] =>
    Array.from({ length: count }, () => newClaim({ id: `5a${newClaim().id.slice(2)}` as never }))

  async function doneInBatches(
    session: LeaseSession,
    claims: readonly ReturnType<typeof newClaim>[],
  ): Promise<void> {
    for (let from = 0; from < claims.length; from += 1_000) {
      const batch = claims.slice(from, from + 1_000)
      await session.claim(batch)
      await session.complete(batch, HOUR_MS)
    }
  }

  async function found(
    session: LeaseSession,
    batches: readonly (readonly ReturnType<typeof newClaim>[])[],
  ): Promise<number> {
    let count = 0
    for (const batch of batches) {
      const answers = await session.claim(batch.map(again))
      count += answers.filter(({ kind }) => kind === 'duplicate').length
    }
    return count
  }

  async function usedMemory(): Promise<number> {
    return Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1])
  }
})
