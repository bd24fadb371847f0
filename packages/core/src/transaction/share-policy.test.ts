import { describe, expect, test } from 'vitest'
import { type CommittedRun, SharePolicy } from './share-policy.ts'

const SLOTS = 16
const QUICK: CommittedRun = { events: 1, handlersMs: 0.3, aroundMs: 1 }

function learned(run: CommittedRun = QUICK, runs = 100): SharePolicy {
  const policy = new SharePolicy(SLOTS)
  for (let n = 0; n < runs; n++) policy.committed(run)
  return policy
}
const sizeOf = (policy: SharePolicy, nowMs = 0): number => policy.plan(nowMs).size

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

  test('an event that fails alone keeps the consumer apart, and the while does not grow', () => {
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

describe('the width', () => {
  /** Settles events, each of which takes what its width costs, and answers the width of each. */
  function settle(policy: SharePolicy, costs: (width: number) => number, events: number): number[] {
    return Array.from({ length: events }, () => {
      const plan = policy.plan(0)
      policy.settled(plan, costs(plan.width), SLOTS)
      return plan.width
    })
  }
  const share = (widths: readonly number[], of: number): number =>
    widths.filter((width) => width === of).length / widths.length

  test('is narrow within a hundred events where fewer transactions are faster', () => {
    const policy = learned()
    settle(policy, (width) => (width === 2 ? 1 : 2), 100)
    expect(
      share(
        settle(policy, (width) => (width === 2 ? 1 : 2), 10_000),
        2,
      ),
    ).toBeGreaterThan(0.97)
  })

  test('stays wide where fewer transactions are slower, and tries again ever more seldom', () => {
    const policy = learned()
    const widths = settle(policy, (width) => (width === 2 ? 3 : 1), 10_000)
    expect(share(widths, 2)).toBeLessThan(0.02)
    expect(widths).toContain(2)
  })

  test('stays wide where it makes no difference', () => {
    const policy = learned()
    expect(
      share(
        settle(policy, () => 1, 10_000),
        2,
      ),
    ).toBeLessThan(0.04)
  })

  test('is not decided by a moment in which the machine had other work', () => {
    const policy = learned()
    // Sixteen slow events while the wide one is looked at, and again in its next trial.
    let count = 0
    const widths = settle(policy, (width) => (width === 2 ? 2 : ++count % 40 < 16 ? 9 : 1), 20)
    widths.push(...settle(policy, (width) => (width === 2 ? 3 : 1), 10_000))
    expect(share(widths, 2)).toBeLessThan(0.03)
  })

  test('turns when the world does', () => {
    const policy = learned()
    settle(policy, (width) => (width === 2 ? 1 : 2), 1_000)
    settle(policy, (width) => (width === 2 ? 3 : 1), 2_000)
    expect(
      share(
        settle(policy, (width) => (width === 2 ? 3 : 1), 2_000),
        16,
      ),
    ).toBeGreaterThan(0.9)
  })

  test('is not tried where handlers take more than half of what is around them', () => {
    const policy = learned({ events: 1, handlersMs: 0.8, aroundMs: 1 })
    expect(
      share(
        settle(policy, () => 1, 1_000),
        SLOTS,
      ),
    ).toBe(1)
  })

  test('is wide again when handlers become longer', () => {
    const policy = learned()
    settle(policy, (width) => (width === 2 ? 1 : 2), 1_000)
    expect(policy.plan(0).width).toBe(2)
    for (let n = 0; n < 100; n++) policy.committed({ events: 4, handlersMs: 6, aroundMs: 1 })
    settle(policy, (width) => (width === 2 ? 1 : 2), 1)
    expect(policy.plan(0).width).toBe(SLOTS)
  })

  test('is not judged by few events in hand, nor by events that ran apart', () => {
    const policy = learned()
    for (let n = 0; n < 1_000; n++) policy.settled(policy.plan(0), 1, 3)
    for (let n = 0; n < 1_000; n++) policy.settled({ size: 1, width: SLOTS }, 1, SLOTS)
    expect(policy.plan(0).width).toBe(SLOTS)
  })
})
