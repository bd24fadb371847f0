import type { LeaseSession } from '@onceward/core/ports'
import { type RedisConnection, redis, type Server } from '@onceward/testing'
import { newClaim, newToken, OTHER_PAYLOAD } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { besideInbox, doneInBatches, found } from './fixtures/beside.ts'

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
const WINDOW_MS = 15 * 24 * HOUR_MS

const beside = () => besideInbox(client)
const again = ({ id }: { readonly id: string }) => newClaim({ id: id as never })
const first = { kind: 'acquired', by: 'first', attempt: 1 }

async function done(session: LeaseSession, result?: string): Promise<ReturnType<typeof newClaim>> {
  const claim = newClaim()
  await session.claim([claim])
  await session.complete([{ ...claim, result }], WINDOW_MS)
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

  it('events that had no claim are remembered in the history that was known before', async () => {
    const { history, open, session, wait } = await beside()
    expect((await open({ hold: 'always' })).marks).toBeUndefined()
    const before = session.marks?.()
    const [plain, large, small] = [newClaim(), newClaim(), newClaim()]
    const results = [plain, { ...large, result: 'x'.repeat(9_000) }, { ...small, result: 1 }]
    await before?.(results, WINDOW_MS)
    expect(await session.claim([plain, large, small].map(again))).toEqual([
      { kind: 'duplicate' },
      first,
      { kind: 'duplicate', result: 1 },
    ])
    const other = { ...plain, ownerToken: newToken(), fingerprint: OTHER_PAYLOAD }
    expect(await session.claim([other])).toEqual([{ kind: 'conflict' }])
    // Red when the mark is written in the history of the time when it is written.
    history.name = 'second'
    wait(6_000)
    const late = newClaim()
    expect(await session.claim([again(late)])).toEqual([first])
    await before?.([plain], WINDOW_MS)
    expect(await session.claim([again(plain)])).toEqual([first])
  })

  it('the history that was read last is told, however long ago that was', async () => {
    const { session, wait } = await beside()
    expect(session.marks?.()).toBeTypeOf('function')
    wait(60_000)
    expect(session.marks?.()).toBeTypeOf('function')
  })

  it('a claim of another process stays when its event is remembered', async () => {
    const { open } = await beside()
    const session = await open()
    const held = newClaim()
    await session.claim([held])
    await session.marks?.()?.([{ ...held, result: 1 }], WINDOW_MS)
    expect(await session.complete([held], WINDOW_MS)).toEqual(['held'])
  })

  it('a done event is remembered for at least one generation and at most two', async () => {
    const { session, pass } = await beside()
    const event = await done(session)
    pass(HOUR_MS)
    expect(await session.claim([again(event)])).toEqual([{ kind: 'duplicate' }])
    pass(HOUR_MS)
    expect(await session.claim([again(event)])).toEqual([first])
  })

  // Red when a mark lives as long as its generation, whatever is left of the event's window.
  it.each([
    // The clock of these tests begins a generation, so that a mark lives for almost two hours.
    ['the whole life of a mark', 2 * HOUR_MS, { kind: 'duplicate' }],
    ['less', HOUR_MS, first],
    ['nothing', 0, first],
  ])('an event that may be remembered for %s', async (_, rememberMs, answer) => {
    const { session } = await beside()
    const claim = newClaim()
    await session.claim([claim])
    expect(await session.complete([claim], rememberMs)).toEqual(['held'])
    expect(await session.claim([again(claim)])).toEqual([answer])
  })

  it('a result is remembered no longer than its event may be', async () => {
    await client.flushall()
    const { session } = await beside()
    const claim = newClaim()
    await session.claim([claim])
    await session.complete([{ ...claim, result: 1 }], 60_000)
    expect(await session.claim([again(claim)])).toEqual([{ kind: 'duplicate', result: 1 }])
    const [key = ''] = await client.keysBuffer('{o:*}e*')
    const endsInMs = await client.pttl(key)
    expect(endsInMs).toBeGreaterThan(0)
    expect(endsInMs).toBeLessThanOrEqual(60_000)
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
    expect(await session.complete([mine], WINDOW_MS)).toEqual(['held'])
    // The event was committed in one of the two histories; Redis cannot know in which.
    expect(await session.claim([again(mine)])).toEqual([first])
  })
})

describe('keys of another program in the place of marks', () => {
  it.each([
    ['a text', (key: string) => client.set(key, 'theirs')],
    ['a list', (key: string) => client.rpush(key, 'theirs')],
    ['another hash', (key: string) => client.hset(key, 'their', 'field')],
  ])('%s is reported and stays, and done events are left to Postgres', async (_what, put) => {
    const { session, logged } = await beside()
    await client.flushall()
    const known = await done(session)
    const [bucket = ''] = await client.keys('*')
    await client.del(bucket)
    await put(bucket)
    const before = await client.dumpBuffer(bucket)
    expect(await session.claim([known])).toEqual([first])
    expect(await session.complete([known], WINDOW_MS)).toEqual(['held'])
    expect(await session.claim([again(known)])).toEqual([first])
    expect(await client.dumpBuffer(bucket)).toEqual(before)
    const key = `${bucket.slice(0, bucket.indexOf('}') + 1)}m*`
    expect(logged.filter(({ level }) => level === 'warn')).toMatchObject([{ fields: { key } }])
  })
})

describe('done marks', () => {
  it('are all found, also in the next generation, and need at most 80 bytes each while buckets are nearly empty', async () => {
    const { session, pass } = await beside()
    const claims = Array.from({ length: 80_000 }, () => newClaim())
    expect(await bytesOfEach(session, claims)).toBeLessThanOrEqual(80)
    expect(await found(session, claims)).toBe(claims.length)
    pass(HOUR_MS)
    const next = Array.from({ length: 1_000 }, () => newClaim())
    await doneInBatches(session, next)
    expect(await found(session, [...next, ...claims.slice(0, 10_000)])).toBe(11_000)
    expect(await client.ttl((await client.randomkey()) ?? '')).toBeGreaterThan(0)
  })

  // A partition is one of 256, so as many marks in all of them are three million.
  it('of one partition are spread over its buckets, need at most 45 bytes each, and all keys expire', async () => {
    const { session } = await beside()
    const claims = inOnePartition(12_000)
    expect(await bytesOfEach(session, claims)).toBeLessThanOrEqual(45)
    expect(await found(session, claims)).toBe(claims.length)
    const buckets = await client.keys('*}m*')
    const sizes = await Promise.all(buckets.map((bucket) => client.hlen(bucket)))
    expect(sizes.reduce((sum, size) => sum + size)).toBe(claims.length + buckets.length)
    // With more than 512 fields Redis would need six times the memory.
    expect(Math.max(...sizes)).toBeLessThan(400)
    const ends = await Promise.all(buckets.map((bucket) => client.pttl(bucket)))
    expect(Math.min(...ends)).toBeGreaterThan(0)
    expect(Math.max(...ends)).toBeLessThanOrEqual(2 * HOUR_MS)
  })

  async function bytesOfEach(
    session: LeaseSession,
    claims: readonly ReturnType<typeof newClaim>[],
  ): Promise<number> {
    await client.flushall()
    const before = await usedMemory()
    await doneInBatches(session, claims)
    return ((await usedMemory()) - before) / claims.length
  }

  const inOnePartition = (count: number): readonly ReturnType<typeof newClaim>[] =>
    Array.from({ length: count }, () => newClaim({ id: `5a${newClaim().id.slice(2)}` as never }))

  async function usedMemory(): Promise<number> {
    const info = await client.info()
    const of = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1])
    // Redis 8 counts the memory of its scripts too.
    return of('used_memory') - (of('redis_version') >= 8 ? of('used_memory_vm_eval') : 0)
  }
})
