import { expect, test } from 'vitest'
import { newEvent } from '../fixtures/inbox.ts'
import type { OwnerToken } from '../model/brands.ts'
import { ConflictError, StoreUnavailableError } from '../model/errors.ts'
import type { InFlightEvent, MemberLease } from '../model/in-flight-event.ts'
import type { Claim, ClaimResult, LeaseSession } from '../model/lease-store.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { type Claimed, claimLeases, unrecordedConflict } from './claim.ts'
import type { LeaseRenewer } from './renew.ts'

const LEASE_MS = 30_000
const error = expect.any(StoreUnavailableError)
const acquired = (by: 'first' | 'takeover' | 'retry', attempt: number): ClaimResult => ({
  kind: 'acquired',
  by,
  attempt,
})

function newMember(over: Partial<InFlightEvent> = {}): InFlightEvent {
  return { index: 0, event: newEvent(), payload: 1, lane: undefined, suspect: false, ...over }
}

/** Claims of a store whose answers the test sets. */
function setUp(inbox?: 'inbox', over: object = {}) {
  let uuids = 0
  let nowMs = 5
  const runtime = {
    ...{ uuid: () => `token-${++uuids}`, random: () => 0.5 },
    monotonic: () => nowMs,
  }
  const retry = { attempts: 7, maxMs: 300_000 }
  const options = {
    ...{ inbox, leaseMs: LEASE_MS, retry, runtime },
    ...over,
  } as unknown as ResolvedOptions
  const asked: Claim[] = []
  const held: string[] = []
  const renewer = {
    keepRenewed: (id, ownerToken, _askedAtMs): MemberLease => {
      held.push(id, ownerToken)
      return { ownerToken, lost: new AbortController().signal }
    },
  } as LeaseRenewer
  const claim = (members: readonly InFlightEvent[], ...answers: readonly ClaimResult[]) => {
    const store = {
      claim: async (claims) => {
        asked.push(...claims)
        nowMs += 7
        return answers
      },
    } as LeaseSession
    return claimLeases({ options, store, renewer: renewer }, members)
  }
  const claimOne = async (answer: ClaimResult, member = newMember()) =>
    (await claim([member], answer))[0] as Claimed
  return { asked, held, claim, claimOne, options, renewer }
}

test('all events are claimed in one call, each with its own token, and each gets its answer', async () => {
  const { asked, held, claim } = setUp()
  const [a, b] = [newMember(), newMember()]
  const [first, second] = await claim([a, b], acquired('first', 1), { kind: 'conflict' })
  const common = { fingerprint: 257n, leaseMs: LEASE_MS, maxAttempts: 7 }
  expect(asked).toEqual([
    { ...common, id: a.event.id, ownerToken: 'token-1' },
    { ...common, id: b.event.id, ownerToken: 'token-2' },
  ])
  expect(first).toMatchObject({ kind: 'run', member: { event: a.event, payload: 1 } })
  expect(second).toEqual({ kind: 'conflict' })
  expect(held).toEqual([a.event.id, 'token-1'])
})

test('with an inbox the store gets no maximum number of attempts', async () => {
  const { asked, claimOne } = setUp('inbox')
  await claimOne(acquired('first', 1))
  expect(asked).toMatchObject([{ maxAttempts: undefined }])
})

// The attempt of a suspect event is recorded before the run. An undecided event may only be taken over again.
test.each([
  ['first', undefined, { suspect: false, takeover: false, isUndecided: false }],
  ['retry', undefined, { suspect: true, takeover: false, isUndecided: false }],
  ['takeover', undefined, { suspect: true, takeover: true, isUndecided: true }],
  ['first', 'inbox', { suspect: false, takeover: false, isUndecided: false }],
  ['retry', 'inbox', { suspect: true, takeover: false, isUndecided: false }],
  ['takeover', 'inbox', { suspect: true, takeover: true, isUndecided: false }],
] as const)('an event acquired as %s runs under its lease, inbox: %s', async (by, inbox, is) => {
  const { takeover, ...member } = is
  expect(await setUp(inbox).claimOne(acquired(by, 3))).toMatchObject({
    kind: 'run',
    takeover,
    member: { ...member, leaseAttempt: 3, lease: { ownerToken: 'token-1' as OwnerToken } },
  })
})

test('a redelivered event stays suspect, even if the store does not know it', async () => {
  const suspect = newMember({ suspect: true })
  expect(await setUp().claimOne(acquired('first', 1), suspect)).toMatchObject({
    member: { suspect: true },
  })
})

test('a deferred event returns after the lease, after at least a second, and at most a third of a lease later', async () => {
  const { claimOne } = setUp()
  const outcome = (delayMs: number) => ({
    kind: 'outcome',
    outcome: { kind: 'in-progress', delayMs, cause: 'held-by-lease' },
  })
  expect(await claimOne({ kind: 'in-progress', remainingMs: 4_000 })).toEqual(outcome(9_000))
  expect(await claimOne({ kind: 'in-progress', remainingMs: 10 })).toEqual(outcome(6_000))
  // Red before: a store whose clock was set back a day held events for a day.
  expect(await claimOne({ kind: 'in-progress', remainingMs: 86_400_000 })).toEqual(outcome(35_000))
  expect(await claimOne({ kind: 'not-due', remainingMs: 86_400_000 })).toMatchObject({
    outcome: { delayMs: 300_000 },
  })
})

// Red when the event waits for the store's clock to catch up, again and again.
test("with an inbox, an answer beyond any lease or wait goes to the row: the store's clock was set back", async () => {
  const { claimOne } = setUp('inbox')
  for (const [kind, limitMs] of [
    ['in-progress', LEASE_MS],
    ['not-due', 300_000],
  ] as const) {
    expect(await claimOne({ kind, remainingMs: limitMs })).toMatchObject({ outcome: { kind } })
    const member = newMember()
    const run = { kind: 'run', member, takeover: false }
    expect(await claimOne({ kind, remainingMs: limitMs + 1 }, member)).toEqual(run)
  }
})

test.each([
  [{ kind: 'not-due', remainingMs: 5 } as const, { kind: 'not-due', delayMs: 5, cause: 'not-due' }],
  [
    { kind: 'duplicate', result: 7 },
    { kind: 'duplicate', result: 7 },
  ],
  [
    { kind: 'dead', reason: 'fatal' },
    { kind: 'dead', reason: 'fatal', attempt: 0, repeated: true },
  ],
  [{ kind: 'unknown' }, { kind: 'store-down', delayMs: 1_000, error, cause: 'store-error' }],
] satisfies (readonly [ClaimResult, object])[])(
  'without an inbox %o decides the outcome',
  async (answer, outcome) => {
    expect(await setUp().claimOne(answer)).toEqual({ kind: 'outcome', outcome })
  },
)

// Red when an event without a claim runs: the store may have answered `duplicate`.
test('an event without an answer of the store does not run without a claim', async () => {
  const members = [newMember(), newMember()]
  const outcome = { kind: 'store-down', delayMs: 1_000, error, cause: 'store-error' }
  const down = { kind: 'outcome', outcome }
  expect((await setUp().claim(members, acquired('first', 1)))[1]).toEqual(down)
  const [, beside] = await setUp('inbox').claim(members, acquired('first', 1))
  expect(beside).toEqual({ kind: 'run', member: members[1], takeover: false })
})

test('with an inbox the row decides about events that the store reports as dead or cannot read', async () => {
  const { claimOne, held } = setUp('inbox')
  const member = newMember()
  expect(await claimOne({ kind: 'dead', reason: 'fatal' }, member)).toEqual({
    kind: 'run',
    member: { ...member, suspect: true },
    takeover: false,
  })
  const unknown = await claimOne({ kind: 'unknown' }, member)
  expect(unknown).toEqual({ kind: 'run', member, takeover: false })
  expect(held).toEqual([])
})

test('a conflict without an inbox is settled by the policy', () => {
  const outcomeBy = (onConflict: ResolvedOptions['onConflict']) =>
    unrecordedConflict({ onConflict } as ResolvedOptions, {})
  const error = expect.any(ConflictError)
  expect(outcomeBy('ack')).toEqual({ kind: 'conflict', policy: 'ack', error })
  expect(outcomeBy('throw')).toEqual({ kind: 'conflict', policy: 'throw', error })
  const dead = { kind: 'dead', reason: 'fingerprint-mismatch', attempt: 0, error }
  expect(outcomeBy('dead-letter')).toEqual(dead)
})

test('the retries of a caller have no limit, and none of them is suspect', async () => {
  const { asked, claimOne } = setUp(undefined, { callerRetries: { isAnswer: () => false } })
  expect(await claimOne(acquired('retry', 9))).toMatchObject({ member: { suspect: false } })
  expect(asked).toMatchObject([{ maxAttempts: undefined }])
})

test('the time of the claim is measured for observe alone', async () => {
  const observed = newMember({ timings: {} })
  await setUp(undefined, { observe: () => undefined }).claimOne(acquired('first', 1), observed)
  expect(observed.timings).toEqual({ claimMs: 7 })
  const unobserved = newMember({ timings: {} })
  await setUp().claimOne(acquired('first', 1), unobserved)
  expect(unobserved.timings).toEqual({})
})

test('a store that does not answer makes every event unavailable, with its error', async () => {
  const { options, renewer } = setUp()
  const down = new StoreUnavailableError('down')
  const store = { claim: () => Promise.reject(down) } as unknown as LeaseSession
  const claimed = await claimLeases({ options, store, renewer }, [newMember(), newMember()])
  const unavailable = { kind: 'unavailable', error: down }
  expect(claimed).toEqual([unavailable, unavailable])
})
