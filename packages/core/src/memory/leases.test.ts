import { describe, expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import type { EventId, Fingerprint, OwnerToken } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { Claim } from '../model/lease-store.ts'
import { memoryLeases } from './index.ts'

const claim = (over: Partial<Claim> = {}): Claim => ({
  id: 'event' as EventId,
  fingerprint: 257n as Fingerprint,
  ownerToken: 'A' as OwnerToken,
  leaseMs: 1_000,
  ...over,
})
const a = { id: 'event' as EventId, ownerToken: 'A' as OwnerToken }
const b = { id: 'event' as EventId, ownerToken: 'B' as OwnerToken }

test('one of two claims wins, and a claim after the lease expired is a takeover', async () => {
  const clock = new Clock()
  const leases = memoryLeases(clock.runtime)
  expect(await leases.claim([claim(), claim({ ownerToken: b.ownerToken })])).toEqual([
    { kind: 'acquired', by: 'first', attempt: 1 },
    { kind: 'in-progress', remainingMs: 1_000 },
  ])
  clock.advance(1_000)
  expect(await leases.claim([claim({ ownerToken: b.ownerToken })])).toEqual([
    { kind: 'acquired', by: 'takeover', attempt: 2 },
  ])
  expect(await leases.complete([a], 5_000)).toEqual(['lost'])
  expect(await leases.renew([a, b], 1_000)).toEqual(['lost', 'held'])
})

test('a done event is kept with its result for the given time', async () => {
  const clock = new Clock()
  const leases = memoryLeases(clock.runtime)
  await leases.claim([claim()])
  expect(await leases.complete([{ ...a, result: { total: 3 } }], 5_000)).toEqual(['held'])
  clock.advance(4_999)
  expect(await leases.claim([claim()])).toEqual([{ kind: 'duplicate', result: { total: 3 } }])
  clock.advance(1)
  expect(await leases.claim([claim()])).toMatchObject([{ kind: 'acquired', by: 'first' }])
})

test('fail, release and bury need the token of the owner', async () => {
  const clock = new Clock()
  const leases = memoryLeases(clock.runtime)
  await leases.claim([claim()])
  expect(await leases.fail([{ ...a, delayMs: 500 }])).toEqual(['held'])
  expect(await leases.claim([claim()])).toEqual([{ kind: 'not-due', remainingMs: 500 }])
  clock.advance(500)
  await leases.claim([claim()])
  expect(await leases.release([b, a])).toEqual(['lost', 'held'])
  expect(await leases.claim([claim()])).toEqual([{ kind: 'acquired', by: 'retry', attempt: 2 }])
  expect(await leases.bury([{ ...a, reason: 'fatal' }], 5_000)).toEqual(['held'])
  expect(await leases.claim([claim()])).toEqual([{ kind: 'dead', reason: 'fatal' }])
  clock.advance(5_000)
  expect(await leases.claim([claim()])).toMatchObject([{ kind: 'acquired', attempt: 1 }])
})

test('takeovers are counted up to the given maximum', async () => {
  const clock = new Clock()
  const leases = memoryLeases(clock.runtime)
  const answers: unknown[] = []
  for (const ownerToken of ['1', '2', '3'] as OwnerToken[]) {
    answers.push(...(await leases.claim([claim({ ownerToken, maxAttempts: 2 })])))
    clock.advance(1_000)
  }
  expect(answers).toMatchObject([
    { kind: 'acquired', attempt: 1 },
    { kind: 'acquired', attempt: 2 },
    { kind: 'dead', reason: 'attempts-spent' },
  ])
})

describe('a store of a million events', () => {
  const claims = (count: number): readonly Claim[] => Array<Claim>(count).fill(claim())

  test('refuses claims beyond them, and takes none', async () => {
    const leases = memoryLeases(new Clock().runtime)
    await expect(leases.claim(claims(1_000_001))).rejects.toThrow(StoreUnavailableError)
    // An event that was released before its first verdict takes no room.
    await leases.claim([claim()])
    await leases.release([a])
    await expect(leases.claim(claims(1_000_001))).rejects.toThrow('holds 0 events')
    expect(await leases.claim([claim()])).toMatchObject([{ kind: 'acquired', by: 'first' }])
  })

  test('makes room by deleting events whose time is over, and no others', async () => {
    const clock = new Clock()
    const leases = memoryLeases(clock.runtime)
    const done = claim({ id: 'done' as EventId })
    await leases.claim([done])
    await leases.complete([{ ...a, id: done.id, result: 1 }], 5_000)
    await expect(leases.claim(claims(1_000_000))).rejects.toThrow('holds 1 events')
    expect(await leases.claim([done])).toEqual([{ kind: 'duplicate', result: 1 }])
    clock.advance(5_000)
    expect(await leases.claim(claims(1_000_000))).toHaveLength(1_000_000)
  })
})
