import { describe, expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import type { EventId, OwnerToken } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { InFlightEvent, MemberLease } from '../model/in-flight-event.ts'
import type { HeldAnswer, LeaseSession } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { createLeaseRenewer, type LeaseRenewer } from './renew.ts'

const LEASE_MS = 30_000
const RENEW_MS = LEASE_MS / 3

interface Renewal {
  readonly tokens: readonly string[]
  readonly leaseMs: number
  readonly atMs: number
  readonly answer: (answers: readonly HeldAnswer[]) => void
  readonly fail: () => void
}

/** A keeper whose renewals the test answers, on a clock that the test moves. */
function setUp(inbox?: 'inbox') {
  const clock = new Clock()
  const keepsAlive: unknown[] = []
  const startMs = clock.runtime.monotonic()
  const renewals: Renewal[] = []
  const renew: LeaseSession['renew'] = (held, leaseMs) =>
    new Promise((resolve, reject) => {
      const tokens = held.map(({ ownerToken }) => ownerToken)
      const atMs = clock.runtime.monotonic() - startMs
      const fail = (): void => reject(new StoreUnavailableError('down'))
      renewals.push({ tokens, leaseMs, atMs, answer: resolve, fail })
    })
  const setTimer: typeof clock.runtime.setTimer = (callback, delayMs, options) => {
    keepsAlive.push(options?.keepAlive)
    return clock.runtime.setTimer(callback, delayMs)
  }
  const runtime = { ...clock.runtime, setTimer }
  const options = { leaseMs: LEASE_MS, runtime, inbox } as unknown as ResolvedOptions
  const renewer = createLeaseRenewer(options, { renew } as LeaseSession)
  const keeper: Keeper = {
    keepRenewed: (id, ownerToken, askedAtMs = runtime.monotonic()) =>
      renewer.keepRenewed(id, ownerToken, askedAtMs),
    isSafe: (member) => renewer.isSafe(member),
    stopRenewing: (member) => renewer.stopRenewing(member),
    idle: () => renewer.idle(),
  }
  const last = (): Renewal => renewals.at(-1) as Renewal
  return { clock, keeper, renewals, last, keepsAlive }
}

/** Leases are claimed just now, unless a test says when. */
interface Keeper extends LeaseRenewer {
  keepRenewed(id: EventId, ownerToken: OwnerToken, askedAtMs?: number): MemberLease
}

const hold = (keeper: Keeper, name: string, askedAtMs?: number): MemberLease =>
  keeper.keepRenewed(`id of ${name}` as EventId, name as OwnerToken, askedAtMs)
const letGo = (keeper: LeaseRenewer, lease: MemberLease | undefined): void =>
  keeper.stopRenewing({ lease } as InFlightEvent)
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

async function pass({ clock }: { readonly clock: Clock }, ms: number): Promise<void> {
  clock.advance(ms)
  await turn()
}

test('all live leases are renewed in one call, a third of the lease after the last one', async () => {
  const kit = setUp()
  hold(kit.keeper, 'a')
  await pass(kit, RENEW_MS - 1)
  hold(kit.keeper, 'b')
  expect(kit.renewals).toEqual([])
  await pass(kit, 1)
  expect(kit.renewals).toMatchObject([{ tokens: ['a', 'b'], leaseMs: LEASE_MS, atMs: RENEW_MS }])
  await pass(kit, 1_000)
  kit.last().answer(['held', 'held'])
  await turn()
  await pass(kit, RENEW_MS)
  expect(kit.renewals.map(({ atMs }) => atMs)).toEqual([RENEW_MS, 2 * RENEW_MS + 1_000])
  // They are no reason for a process to live on.
  expect(new Set(kit.keepsAlive)).toEqual(new Set([false]))
})

test('a lease that was let go is renewed no more, and without any nothing is waited for', async () => {
  const kit = setUp()
  const [a, b] = [hold(kit.keeper, 'a'), hold(kit.keeper, 'b')]
  letGo(kit.keeper, a)
  await pass(kit, RENEW_MS)
  expect(kit.last().tokens).toEqual(['b'])
  kit.last().answer(['held'])
  await turn()
  // A member that never had a lease changes nothing.
  letGo(kit.keeper, undefined)
  expect(kit.clock.timers).toBe(1)
  letGo(kit.keeper, b)
  expect(kit.clock.timers).toBe(0)
  await pass(kit, LEASE_MS)
  expect(kit.renewals).toHaveLength(1)
})

test('who has lost its lease is told, and nobody else', async () => {
  const kit = setUp('inbox')
  const [a, b] = [hold(kit.keeper, 'a'), hold(kit.keeper, 'b')]
  await pass(kit, RENEW_MS)
  expect([a.lost.aborted, b.lost.aborted]).toEqual([false, false])
  kit.last().answer(['held', 'lost'])
  await turn()
  expect([a.lost.aborted, b.lost.aborted]).toEqual([false, true])
})

// Red when a renewal that ends starts a timer beside the one of a claim that came meanwhile.
test('leases that come and go while others are renewed make no second round of renewals', async () => {
  const kit = setUp()
  let lease = hold(kit.keeper, 'a')
  for (let round = 1; round <= 3; round += 1) {
    await pass(kit, RENEW_MS)
    expect(kit.renewals).toHaveLength(round)
    letGo(kit.keeper, lease)
    lease = hold(kit.keeper, `${round}`)
    kit.last().answer(['held'])
    await turn()
    expect(kit.clock.timers).toBe(1)
  }
  await pass(kit, RENEW_MS)
  letGo(kit.keeper, lease)
  kit.last().answer(['held'])
  await turn()
  expect(kit.clock.timers).toBe(0)
})

// Red when a renewal is forgotten as it is given up: the client is ended under it.
test('a renewal that was given up is still waited for', async () => {
  const kit = setUp('inbox')
  const a = hold(kit.keeper, 'a')
  await pass(kit, RENEW_MS)
  await pass(kit, RENEW_MS)
  letGo(kit.keeper, a)
  let isIdle = false
  const idle = kit.keeper.idle().then(() => {
    isIdle = true
  })
  await turn()
  expect(isIdle).toBe(false)
  kit.last().fail()
  await idle
})

describe('without an inbox', () => {
  test('who could not renew is told before its lease can run out, not at the first failure', async () => {
    const kit = setUp()
    const { lost } = hold(kit.keeper, 'a')
    await pass(kit, RENEW_MS)
    kit.last().fail()
    await turn()
    expect(lost.aborted).toBe(false)
    await pass(kit, RENEW_MS)
    expect(lost.aborted).toBe(false)
    kit.last().fail()
    await turn()
    expect(lost.aborted).toBe(true)
  })

  // 30 s from the call are over 10 s after the next try, less a margin, or they are not.
  test.each([
    [6_000, false],
    [8_000, true],
  ])(
    'what was renewed by an answer after %i ms counts from before the call',
    async (ms, isLost) => {
      const kit = setUp()
      const { lost } = hold(kit.keeper, 'a')
      await pass(kit, RENEW_MS)
      await pass(kit, ms)
      kit.last().answer(['held'])
      await turn()
      await pass(kit, RENEW_MS)
      kit.last().fail()
      await turn()
      expect(lost.aborted).toBe(isLost)
    },
  )

  test('a failure so late that only a tenth of the lease would be left after the next try is the last', async () => {
    const kit = setUp()
    const { lost } = hold(kit.keeper, 'a')
    await pass(kit, RENEW_MS)
    // 17 s: a third and a tenth before the end.
    await pass(kit, 7_000)
    kit.last().fail()
    await turn()
    expect(lost.aborted).toBe(false)

    const other = setUp()
    const late = hold(other.keeper, 'a')
    await pass(other, RENEW_MS)
    await pass(other, 7_001)
    other.last().fail()
    await turn()
    expect(late.lost.aborted).toBe(true)
  })

  // Red when the keeper waits for the store: the handler would go on beside its successor.
  test('a store that hangs has renewed nothing', async () => {
    const kit = setUp()
    const { lost } = hold(kit.keeper, 'a')
    await pass(kit, RENEW_MS)
    await pass(kit, RENEW_MS - 1)
    expect(lost.aborted).toBe(false)
    await pass(kit, 1)
    expect(lost.aborted).toBe(true)
    // Its answer comes too late to prolong anything.
    kit.last().answer(['held'])
    await turn()
    await pass(kit, RENEW_MS)
    expect(kit.renewals.map(({ atMs }) => atMs)).toEqual([RENEW_MS, 3 * RENEW_MS])
  })
})

test('beside an inbox a store that does not answer ends no run: the row decides', async () => {
  const kit = setUp('inbox')
  const { lost } = hold(kit.keeper, 'a')
  for (let round = 1; round <= 5; round += 1) {
    await pass(kit, RENEW_MS)
    kit.last().fail()
    await turn()
    expect(kit.renewals).toHaveLength(round)
  }
  expect(lost.aborted).toBe(false)
})

describe('before a handler starts', () => {
  const isSafe = (keeper: LeaseRenewer, lease: MemberLease) =>
    keeper.isSafe({ lease } as InFlightEvent)

  test('a lease of which two thirds are left is safe, without another call', async () => {
    const kit = setUp()
    const lease = hold(kit.keeper, 'a')
    kit.clock.advance(LEASE_MS / 3 - 1)
    expect(await isSafe(kit.keeper, lease)).toBe(true)
    expect(kit.renewals).toEqual([])
  })

  // Red before: validity was counted from the answer, so a claim that took 8 s under a lease of 3 s started at once.
  test.each(['held', 'lost'] as const)(
    'a lease whose claim was answered late is renewed first; the store answers %s',
    async (answer) => {
      const kit = setUp()
      const askedAtMs = kit.clock.runtime.monotonic() - LEASE_MS / 2
      const lease = hold(kit.keeper, 'a', askedAtMs)
      const asking = isSafe(kit.keeper, lease)
      expect(kit.renewals).toHaveLength(1)
      kit.last().answer([answer])
      expect(await asking).toBe(answer === 'held')
      expect(lease.lost.aborted).toBe(answer === 'lost')
    },
  )

  test('a lease that the store does not renew in time is lost', async () => {
    const kit = setUp()
    const lease = hold(kit.keeper, 'a', kit.clock.runtime.monotonic() - LEASE_MS)
    const asking = isSafe(kit.keeper, lease)
    await pass(kit, LEASE_MS / 3)
    expect(await asking).toBe(false)
    expect(lease.lost.aborted).toBe(true)
  })

  test('a lease that was lost meanwhile is not asked for again', async () => {
    const kit = setUp()
    const lease = hold(kit.keeper, 'a')
    await pass(kit, RENEW_MS)
    kit.last().answer(['lost'])
    await turn()
    expect(await isSafe(kit.keeper, lease)).toBe(false)
    expect(kit.renewals).toHaveLength(1)
  })
})
