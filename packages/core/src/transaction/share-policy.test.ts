import { describe, expect, test } from 'vitest'
import { type CommittedRun, SharePolicy } from './share-policy.ts'

const SLOTS = 16
const QUICK: CommittedRun = { events: 1, handlersMs: 0.3, aroundMs: 1 }

function learned(run: CommittedRun = QUICK, runs = 100): SharePolicy {
  const policy = new SharePolicy(SLOTS)
  for (let n = 0; n < runs; n++) policy.committed(run)
  return policy
}
const sizeOf = (policy: SharePolicy, nowMs = 0): number => policy.plan(nowMs, SLOTS).size

describe('the size of a transaction', () => {
  test('is one until the times of some runs are known', () => {
    expect(sizeOf(learned(QUICK, 15))).toBe(1)
    expect(sizeOf(learned(QUICK, 16))).toBeGreaterThan(1)
  })

  test.each([
    [0.05, 100],
    [0.4, 50],
    [1, 20],
    [3, 6],
  ])('of handlers of %d ms is %d: about twenty milliseconds together', (handlersMs, size) => {
    expect(sizeOf(learned({ events: 1, handlersMs, aroundMs: 5 }))).toBe(size)
  })

  test('counts what each of the events of a run took', () => {
    expect(sizeOf(learned({ events: 10, handlersMs: 10, aroundMs: 5 }))).toBe(20)
  })

  test('is one where a handler takes longer than the claim and the commit around it', () => {
    expect(sizeOf(learned({ events: 1, handlersMs: 2, aroundMs: 1.5 }))).toBe(1)
  })

  test('is one for handlers of more than a few milliseconds, whatever is around them', () => {
    expect(sizeOf(learned({ events: 1, handlersMs: 5, aroundMs: 50 }))).toBe(1)
  })

  test('follows handlers that become slow within a hundred events, and quick again', () => {
    const policy = learned()
    for (let n = 0; n < 10; n++) policy.committed({ events: 5, handlersMs: 500, aroundMs: 2 })
    expect(sizeOf(policy)).toBe(1)
    for (let n = 0; n < 100; n++) policy.committed(QUICK)
    expect(sizeOf(policy)).toBeGreaterThan(1)
  })
})

describe('after trouble', () => {
  const isApart = (policy: SharePolicy, atMs: number): boolean => sizeOf(policy, atMs) === 1

  test('each event has its own transaction for a while, which doubles with each trouble of a shared one', () => {
    const policy = learned()
    policy.troubled(8, 1_000)
    expect([isApart(policy, 1_249), isApart(policy, 1_250)]).toEqual([true, false])
    policy.troubled(8, 2_000)
    expect([isApart(policy, 2_499), isApart(policy, 2_500)]).toEqual([true, false])
    for (let n = 0; n < 20; n++) policy.troubled(8, 1_000_000 * (n + 1))
    expect(isApart(policy, 20_059_999)).toBe(true)
    expect(isApart(policy, 20_060_000)).toBe(false)
  })

  test('transactions that were open at the first trouble do not count again', () => {
    const policy = learned()
    policy.troubled(8, 0)
    policy.troubled(8, 1)
    policy.troubled(8, 2)
    expect(isApart(policy, 503)).toBe(false)
  })

  test('one that meets it alone keeps the consumer apart, and the while does not grow', () => {
    const policy = learned()
    for (let atMs = 0; atMs < 1_000; atMs += 100) policy.troubled(1, atMs)
    expect([isApart(policy, 1_149), isApart(policy, 1_150)]).toEqual([true, false])
  })

  test('the while halves while shared transactions are committed', () => {
    const policy = learned()
    policy.troubled(8, 0)
    policy.troubled(8, 10_000)
    policy.troubled(8, 20_000)
    for (let n = 0; n < 32; n++) policy.committed({ ...QUICK, events: 8 })
    policy.troubled(8, 30_000)
    expect([isApart(policy, 30_999), isApart(policy, 31_000)]).toEqual([true, false])
  })
})

describe('events that fail', () => {
  /** Plays events alone of which every `one`th fails, and answers the size after each. */
  function play(policy: SharePolicy, one: number, events: number): number[] {
    return Array.from({ length: events }, (_, n) => {
      if (n % one === one - 1) policy.failed(1, 0)
      else policy.committed(QUICK)
      return sizeOf(policy)
    })
  }

  test.each([
    [50, 6, 31],
    [20, 3, 7],
    [10, 2, 3],
    [5, 1, 1],
    [2, 1, 1],
  ])('one of %d: from %d to %d share a transaction', (one, least, most) => {
    const policy = learned()
    play(policy, one, 100)
    const sizes = play(policy, one, 1_000)
    expect([Math.min(...sizes), Math.max(...sizes)]).toEqual([least, most])
  })

  test('stand alone within a hundred events when all fail, and share again after a hundred that do not', () => {
    const policy = learned()
    play(policy, 1, 100)
    expect(sizeOf(policy)).toBe(1)
    for (let n = 0; n < 200; n++) policy.committed(QUICK)
    expect(sizeOf(policy)).toBeGreaterThan(8)
  })

  test('beside others only, and never alone, meet longer and longer times apart', () => {
    const policy = learned()
    let shared = 0
    for (let nowMs = 0; nowMs < 600_000; nowMs += 1) {
      if (sizeOf(policy, nowMs) > 1) {
        shared += 1
        policy.failed(8, nowMs)
      } else policy.committed(QUICK)
    }
    expect(shared).toBeLessThan(200)
  })
})

describe('the width', () => {
  test('is that of all slots, and few where that is found to be faster', () => {
    const policy = learned()
    expect(policy.plan(0, SLOTS).width).toBe(SLOTS)
    for (let n = 0; n < 1_000; n++) {
      const plan = policy.plan(0, SLOTS)
      policy.settled(plan, plan.width < SLOTS ? 4 : 8, SLOTS)
    }
    expect(policy.plan(0, SLOTS).width).toBe(2)
  })

  test('is not tried where a shared transaction could not end before its events would have ended alone', () => {
    const policy = learned({ events: 1, handlersMs: 1, aroundMs: 1 })
    for (let n = 0; n < 1_000; n++) {
      const plan = policy.plan(0, SLOTS)
      expect(plan).toEqual({ size: 20, width: SLOTS })
      policy.settled(plan, 3, SLOTS)
    }
  })

  test('says nothing while each event has a transaction of its own', () => {
    const policy = learned()
    policy.troubled(8, 0)
    for (let n = 0; n < 1_000; n++) policy.settled(policy.plan(0, SLOTS), 8, SLOTS)
    expect(policy.plan(1_000, SLOTS).width).toBe(SLOTS)
  })
})
