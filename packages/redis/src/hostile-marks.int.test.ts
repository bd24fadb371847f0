import { createHash } from 'node:crypto'
import type { EventId } from '@onceward/core/ports'
import { type RedisConnection, redis, type Server, until } from '@onceward/testing'
import { newClaim } from '@onceward/testing/conformance'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { besideInbox, doneInBatches, found } from './fixtures/beside.ts'

let server: Server<RedisConnection>
let client: Redis

beforeAll(async () => {
  server = await redis({ native: true, settings: { appendonly: 'no' } })
  client = new Redis(server.connection.port)
})
beforeEach(() => client.flushall())
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
const newClaims = (count: number, id: (index: number) => string = () => newClaim().id) =>
  Array.from({ length: count }, (_, index) => newClaim({ id: id(index) as EventId }))

describe('guards with different generations in one namespace', () => {
  it('find all their own marks', async () => {
    const { session, open } = await besideInbox(client)
    const sessions = [
      session,
      await open({ rememberDoneMs: HOUR_MS / 4 }),
      await open({ rememberDoneMs: 7_000_000 }),
    ]
    const claims = sessions.map(() => newClaims(8_000))
    // In turns, because the last one to write once decided for all.
    for (let from = 0; from < 8_000; from += 1_000) {
      for (const [index, one] of sessions.entries()) {
        await doneInBatches(one, claims[index]?.slice(from, from + 1_000) ?? [])
      }
    }
    const counts = []
    for (const [index, one] of sessions.entries())
      counts.push(await found(one, claims[index] ?? []))
    expect(counts).toEqual([8_000, 8_000, 8_000])
  })
})

describe('event keys that somebody chose', () => {
  const hex = (index: number, digits: number) => index.toString(16).padStart(digits, '0')

  // The ids are hashes of the keys, so whoever may try keys can have any few bytes of the id alike.
  it.each<[string, (index: number) => string]>([
    ['the first five bytes', (index) => `5a000000-00ff-4000-8000-${hex(index, 12)}`],
    ['the last bytes', (index) => `5a${hex(index, 6)}-00ff-4000-8000-000000000000`],
    [
      'all but the middle',
      (index) => `5a000000-${hex(index >> 12, 4)}-4${hex(index & 4095, 3)}-8000-000000000000`,
    ],
  ])('cannot put many marks into one bucket with %s alike', async (_which, id) => {
    const { session } = await besideInbox(client)
    const claims = newClaims(16_000, id)
    await doneInBatches(session, claims)
    expect(await found(session, claims)).toBe(claims.length)
    const buckets = await client.keys('*')
    const sizes = await Promise.all(buckets.map((bucket) => client.hlen(bucket)))
    expect(Math.max(...sizes)).toBeLessThan((3 * claims.length) / 64)
    expect(await session.claim(newClaims(1))).toMatchObject([{ kind: 'acquired' }])
  })

  it('the place of a mark differs between histories', async () => {
    const { session, history, wait } = await besideInbox(client)
    const claims = newClaims(64, (index) => `5a000000-0000-4000-8000-${hex(index, 12)}`)
    const places: string[] = []
    for (const name of ['first', 'second']) {
      history.name = name
      wait(5_001)
      await client.flushall()
      await doneInBatches(session, claims)
      const buckets = (await client.keys('*')).toSorted((a, b) =>
        a.split('}')[1]!.localeCompare(b.split('}')[1]!),
      )
      const held = await Promise.all(
        buckets.map(async (bucket) =>
          (await client.hkeysBuffer(bucket)).map((field) => field.toString('hex')).toSorted(),
        ),
      )
      places.push(createHash('sha256').update(JSON.stringify(held)).digest('hex'))
    }
    expect(places[0]).not.toBe(places[1])
  })
})

describe('the clock of Redis', () => {
  it.each([
    ['an hour', HOUR_MS],
    ['a day', DAY_MS],
    ['a day and an hour', DAY_MS + HOUR_MS],
  ])(
    'may be set back by %s: marks are right or missing, and claims go on',
    async (_how, backMs) => {
      const { session, pass } = await besideInbox(client)
      const before = newClaims(100)
      await doneInBatches(session, before)
      const [running, released, waiting] = newClaims(3)
      if (!running || !released || !waiting) throw new Error('no claims')
      await session.claim([running, released, waiting])
      await session.fail([{ ...waiting, delayMs: 1_000 }])
      pass(-backMs)
      // A mark that is not found costs a question to PostgreSQL. One that lived on would outlive its row.
      expect([0, 100]).toContain(await found(session, before))
      const after = newClaims(100)
      await doneInBatches(session, after)
      expect(await found(session, after)).toBe(100)
      expect(await session.claim([newClaim({ id: running.id })])).toMatchObject([
        { kind: 'in-progress' },
      ])
      expect(await session.renew([running], 30_000)).toEqual(['held'])
      expect(await session.complete([running], 15 * DAY_MS)).toEqual(['held'])
      expect(await session.release([released])).toEqual(['held'])
      expect(await session.claim([newClaim({ id: released.id })])).toMatchObject([
        { kind: 'acquired' },
      ])
      expect(await found(session, [running])).toBe(1)
      // A few generations of the new clock later nothing is remembered, whatever the clock was before.
      pass(4 * HOUR_MS)
      expect(await found(session, [...before, ...after, running])).toBe(0)
    },
  )
})

it('a generation does not take over the marks of another one that it finds in its buckets', async () => {
  const { session, pass } = await besideInbox(client)
  const old = newClaims(4_000)
  await doneInBatches(session, old)
  // An even number of generations: the new marks go to the same buckets.
  pass(-DAY_MS)
  await doneInBatches(session, newClaims(4_000))
  expect(await found(session, old)).toBe(0)
})

describe('the doctor', () => {
  const lines = (logged: readonly { readonly level: string; readonly fields: object }[]) =>
    logged.filter(({ level }) => level === 'error').map(({ fields }) => fields)

  it('finds marks without their rows at start, and nobody believes them any more', async () => {
    const { session, history, logged, open } = await besideInbox(client)
    const claims = newClaims(2_000)
    await doneInBatches(session, claims)
    for (const { id } of claims) history.gone.add(id)
    const restarted = await open()
    expect(lines(logged)).toMatchObject([{ remedy: 'select onceward.forget_history()' }])
    expect(await found(restarted, claims.slice(0, 10))).toBe(0)
  })

  it('finds a single one in time, among many', async () => {
    const { session, history, logged, wait } = await besideInbox(client)
    const claims = newClaims(1_000)
    await doneInBatches(session, claims)
    const [lost] = claims
    if (!lost) throw new Error('no claim')
    history.gone.add(lost.id)
    await until(async () => {
      wait(60_001)
      await session.claim([newClaim()])
      return lines(logged).length > 0
    })
    expect(lines(logged)).toMatchObject([{ eventId: lost.id }])
    expect(await found(session, claims)).toBe(0)
    history.name = 'after forgetHistory'
    wait(5_001)
    await doneInBatches(session, [lost])
    expect(await found(session, [lost])).toBe(1)
  })

  it('is silent while every mark has its row, and when rows went with their history', async () => {
    const { session, history, logged, open } = await besideInbox(client)
    const claims = newClaims(2_000)
    await doneInBatches(session, claims)
    await open()
    expect(lines(logged)).toEqual([])
    for (const { id } of claims) history.gone.add(id)
    history.name = 'after forgetHistory'
    await open()
    expect(lines(logged)).toEqual([])
  })

  it('survives an inbox that fails, and goes on without it', async () => {
    const { session, history, logged, open } = await besideInbox(client)
    const claims = newClaims(500)
    await doneInBatches(session, claims)
    Object.assign(history, { isDone: undefined })
    const restarted = await open()
    expect(await found(restarted, claims)).toBe(claims.length)
    expect(lines(logged)).toEqual([])
  })
})
