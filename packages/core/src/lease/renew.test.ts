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

/** A renewer whose renewals the test answers, on a clock that the test moves. */
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
  const inner = createLeaseRenewer(options, { renew } as LeaseSession)
  const renewer: TestRenewer = {
    keepRenewed: (id, ownerToken, askedAtMs = runtime.monotonic()) =>
      inner.keepRenewed(id, ownerToken, askedAtMs),
    isSafe: (member) => inner.isSafe(member),
    stopRenewing: (member) => inner.stopRenewing(member),
    idle: () => inner.idle(),
    read: () => inner.read(),
  }
  const last = (): Renewal => renewals.at(-1) as Renewal
  return { clock, renewer, renewals, last, keepsAlive }
}

/** Leases are claimed just now, unless a test says when. */
interface TestRenewer extends LeaseRenewer {
  keepRenewed(id: EventId, ownerToken: OwnerToken, askedAtMs?: number): MemberLease
}

const hold = (renewer: TestRenewer, name: string, askedAtMs?: number): MemberLease =>
  renewer.keepRenewed(`id of ${name}` as EventId, name as OwnerToken, askedAtMs)
const letGo = (renewer: LeaseRenewer, lease: MemberLease | undefined): void =>
  renewer.stopRenewing({ lease } as InFlightEvent)
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

async function pass({ clock }: { readonly clock: Clock }, ms: number): Promise<void> {
  clock.advance(ms)
  await turn()
}

test('all live leases are renewed in one call, every third of the lease', async () => {
  const kit = setUp()
  hold(kit.renewer, 'a')
  await pass(kit, RENEW_MS - 1)
  hold(kit.renewer, 'b')
  expect(kit.renewals).toEqual([])
  await pass(kit, 1)
  expect(kit.renewals).toMatchObject([{ tokens: ['a', 'b'], leaseMs: LEASE_MS, atMs: RENEW_MS }])
  await pass(kit, 1_000)
  kit.last().answer(['held', 'held'])
  await turn()
  await pass(kit, RENEW_MS)
  expect(kit.renewals.map(({ atMs }) => atMs)).toEqual([RENEW_MS, 2 * RENEW_MS + 1_000])
  // Renewals do not keep the process alive.
  expect(new Set(kit.keepsAlive)).toEqual(new Set([false]))
})

test('a lease is no longer renewed after it was released, and without leases there is no timer', async () => {
  const kit = setUp()
  const [a, b] = [hold(kit.renewer, 'a'), hold(kit.renewer, 'b')]
  letGo(kit.renewer, a)
  await pass(kit, RENEW_MS)
  expect(kit.last().tokens).toEqual(['b'])
  kit.last().answer(['held'])
  await turn()
  // An event that never had a lease changes nothing.
  letGo(kit.renewer, undefined)
  expect(kit.clock.timers).toBe(1)
  letGo(kit.renewer, b)
  expect(kit.clock.timers).toBe(0)
  await pass(kit, LEASE_MS)
  expect(kit.renewals).toHaveLength(1)
})

test('only the run whose lease is lost is told', async () => {
  const kit = setUp('inbox')
  const [a, b] = [hold(kit.renewer, 'a'), hold(kit.renewer, 'b')]
  await pass(kit, RENEW_MS)
  expect([a.lost.aborted, b.lost.aborted]).toEqual([false, false])
  kit.last().answer(['held', 'lost'])
  await turn()
  expect([a.lost.aborted, b.lost.aborted]).toEqual([false, true])
})

test('the answers of all renewals are counted', async () => {
  const kit = setUp('inbox')
  const none = { held: 0, lost: 0, failed: 0 }
  expect(kit.renewer.read()).toEqual({ held: 0, renewals: none })
  hold(kit.renewer, 'a')
  hold(kit.renewer, 'b')
  await pass(kit, RENEW_MS)
  kit.last().answer(['held', 'lost'])
  await turn()
  const first = kit.renewer.read()
  expect(first).toEqual({ held: 2, renewals: { held: 1, lost: 1, failed: 0 } })
  await pass(kit, RENEW_MS)
  kit.last().fail()
  await turn()
  expect(kit.renewer.read().renewals).toEqual({ held: 1, lost: 1, failed: 2 })
  expect(first.renewals.failed).toBe(0)
})

// Red when the end of a renewal starts a timer beside the timer of a new claim.
test('leases that come and go during a renewal do not start a second round of renewals', async () => {
  const kit = setUp()
  let lease = hold(kit.renewer, 'a')
  for (let round = 1; round <= 3; round += 1) {
    await pass(kit, RENEW_MS)
    expect(kit.renewals).toHaveLength(round)
    letGo(kit.renewer, lease)
    lease = hold(kit.renewer, `${round}`)
    kit.last().answer(['held'])
    await turn()
    expect(kit.clock.timers).toBe(1)
  }
  await pass(kit, RENEW_MS)
  letGo(kit.renewer, lease)
  kit.last().answer(['held'])
  await turn()
  expect(kit.clock.timers).toBe(0)
})

// Red when a renewal that timed out is forgotten: the client would be closed during the call.
test('a renewal that timed out is still waited for', async () => {
  const kit = setUp('inbox')
  const a = hold(kit.renewer, 'a')
  await pass(kit, RENEW_MS)
  await pass(kit, RENEW_MS)
  letGo(kit.renewer, a)
  let isIdle = false
  const idle = kit.renewer.idle().then(() => {
    isIdle = true
  })
  await turn()
  expect(isIdle).toBe(false)
  kit.last().fail()
  await idle
})

describe('without an inbox', () => {
  test('a run that cannot renew is told before its lease can expire, not at the first failure', async () => {
    const kit = setUp()
    const { lost } = hold(kit.renewer, 'a')
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

  // The lease ends 30 s after the call. An answer after 8 s leaves too little time for another try.
  test.each([
    [6_000, false],
    [8_000, true],
  ])('a renewal that is answered after %i ms counts from before the call', async (ms, isLost) => {
    const kit = setUp()
    const { lost } = hold(kit.renewer, 'a')
    await pass(kit, RENEW_MS)
    await pass(kit, ms)
    kit.last().answer(['held'])
    await turn()
    await pass(kit, RENEW_MS)
    kit.last().fail()
    await turn()
    expect(lost.aborted).toBe(isLost)
  })

  test('a failure is the last one if only a tenth of the lease would be left after the next try', async () => {
    const kit = setUp()
    const { lost } = hold(kit.renewer, 'a')
    await pass(kit, RENEW_MS)
    // 17 s: a third and a tenth before the end.
    await pass(kit, 7_000)
    kit.last().fail()
    await turn()
    expect(lost.aborted).toBe(false)

    const other = setUp()
    const late = hold(other.renewer, 'a')
    await pass(other, RENEW_MS)
    await pass(other, 7_001)
    other.last().fail()
    await turn()
    expect(late.lost.aborted).toBe(true)
  })

  // Red when the renewer waits for the store: the handler would run beside the next owner.
  test('a store that hangs has renewed no lease', async () => {
    const kit = setUp()
    const { lost } = hold(kit.renewer, 'a')
    await pass(kit, RENEW_MS)
    await pass(kit, RENEW_MS - 1)
    expect(lost.aborted).toBe(false)
    await pass(kit, 1)
    expect(lost.aborted).toBe(true)
    // The answer comes too late to prolong the lease.
    kit.last().answer(['held'])
    await turn()
    await pass(kit, RENEW_MS)
    expect(kit.renewals.map(({ atMs }) => atMs)).toEqual([RENEW_MS, 3 * RENEW_MS])
  })
})

test('with an inbox a store that does not answer ends no run, because the row decides', async () => {
  const kit = setUp('inbox')
  const { lost } = hold(kit.renewer, 'a')
  for (let round = 1; round <= 5; round += 1) {
    await pass(kit, RENEW_MS)
    kit.last().fail()
    await turn()
    expect(kit.renewals).toHaveLength(round)
  }
  expect(lost.aborted).toBe(false)
})

describe('before a handler starts', () => {
  const isSafe = (renewer: LeaseRenewer, lease: MemberLease | undefined) =>
    renewer.isSafe({ lease } as InFlightEvent)

  test('a lease of which two thirds are left is safe, without another call', async () => {
    const kit = setUp()
    const lease = hold(kit.renewer, 'a', kit.clock.runtime.monotonic() - LEASE_MS / 3)
    expect(await isSafe(kit.renewer, lease)).toBe(true)
    letGo(kit.renewer, lease)
    expect(await isSafe(kit.renewer, lease)).toBe(false)
    expect(kit.renewals).toEqual([])
    expect(await kit.renewer.isSafe({} as InFlightEvent)).toBe(false)
  })

  // Red before: validity was counted from the answer, so a claim that took 8 s under a lease of 3 s started at once.
  test.each(['held', 'lost'] as const)(
    'a lease whose claim was answered late is renewed first; the store answers %s',
    async (answer) => {
      const kit = setUp()
      const askedAtMs = kit.clock.runtime.monotonic() - LEASE_MS / 2
      const lease = hold(kit.renewer, 'a', askedAtMs)
      const asking = isSafe(kit.renewer, lease)
      expect(kit.renewals).toMatchObject([{ tokens: ['a'] }])
      kit.last().answer([answer])
      expect(await asking).toBe(answer === 'held')
      expect(lease.lost.aborted).toBe(answer === 'lost')
      // Renewed, it is safe for the next handler too.
      expect(await isSafe(kit.renewer, lease)).toBe(answer === 'held')
      expect(kit.renewals).toHaveLength(1)
    },
  )

  test('a lease that the store does not renew in time is lost', async () => {
    const kit = setUp()
    const lease = hold(kit.renewer, 'a', kit.clock.runtime.monotonic() - LEASE_MS)
    const asking = isSafe(kit.renewer, lease)
    await pass(kit, LEASE_MS / 3)
    expect(await asking).toBe(false)
    expect(lease.lost.aborted).toBe(true)
  })

  test('a lease that was lost meanwhile is not asked for again', async () => {
    const kit = setUp()
    const lease = hold(kit.renewer, 'a')
    await pass(kit, RENEW_MS)
    kit.last().answer(['lost'])
    await turn()
    expect(await isSafe(kit.renewer, lease)).toBe(false)
    expect(kit.renewals).toHaveLength(1)
    letGo(kit.renewer, lease)
    for (const none of [lease, undefined]) expect(await isSafe(kit.renewer, none)).toBe(false)
  })
})
