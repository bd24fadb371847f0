import { expect, test } from 'vitest'
import { newEvent } from '../fixtures/inbox.ts'
import type { EventId, OwnerToken } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import type { Outcome } from '../settlement/outcome.ts'
import type { Leases } from './claim.ts'
import { completeLease } from './complete.ts'

const error = new Error('why')
const event = { ...newEvent(), id: 'e' as EventId }
const lease = { ownerToken: 'mine' as OwnerToken, lost: new AbortController().signal }
const leased: InFlightEvent = {
  index: 0,
  event,
  payload: 1,
  lane: undefined,
  suspect: false,
  lease,
}
const held = { id: 'e', ownerToken: 'mine' }

/** Records the calls to the store and to the lease renewer. */
async function told(
  outcome: Outcome,
  member = leased,
  fails = false,
  over: Partial<ResolvedOptions> = {},
) {
  const heard: unknown[] = []
  const hear =
    (name: string) =>
    async (...args: readonly unknown[]) => {
      heard.push([name, ...args])
      if (fails) throw new StoreUnavailableError('down')
      return []
    }
  const store = {
    complete: hear('complete'),
    fail: hear('fail'),
    release: hear('release'),
    bury: hear('bury'),
  } as unknown as Leases['store']
  const renewer = {
    stopRenewing: ({ event: { id } }: InFlightEvent) => heard.push(['stopRenewing', id]),
  } as unknown as Leases['renewer']
  const options = { dedupWindowMs: 60_000, inbox: {}, ...over } as ResolvedOptions
  await completeLease({ options, store, renewer: renewer }, member, outcome)
  return heard
}

const STOPPED_RENEWING = ['stopRenewing', 'e']
const RELEASED = [['release', [held]], STOPPED_RENEWING]

const ROWS: readonly (readonly [Outcome, readonly unknown[]])[] = [
  [
    { kind: 'processed', attempt: 1, result: 7 },
    [['complete', [{ ...held, result: 7 }], 60_000], STOPPED_RENEWING],
  ],
  [
    { kind: 'duplicate' },
    [['complete', [{ ...held, result: undefined }], 60_000], STOPPED_RENEWING],
  ],
  // The rest of the window is rounded down to sixteenths of it, so that duplicates of about the same age share a call.
  [
    { kind: 'duplicate', ageMs: 1 },
    [['complete', [{ ...held, result: undefined }], 56_250], STOPPED_RENEWING],
  ],
  [
    { kind: 'duplicate', ageMs: 30_000 },
    [['complete', [{ ...held, result: undefined }], 30_000], STOPPED_RENEWING],
  ],
  // The sweep is late, or a clock was set back.
  [
    { kind: 'duplicate', ageMs: 60_001 },
    [['complete', [{ ...held, result: undefined }], 0], STOPPED_RENEWING],
  ],
  [
    { kind: 'duplicate', ageMs: -5_000 },
    [['complete', [{ ...held, result: undefined }], 60_000], STOPPED_RENEWING],
  ],
  [
    { kind: 'failed', attempt: 1, delayMs: 5, error, cause: 'handler-failed' },
    [['fail', [{ ...held, delayMs: 5 }]], STOPPED_RENEWING],
  ],
  [
    { kind: 'dead', reason: 'fatal', attempt: 1, ref: { kind: 'event', id: event.id } },
    [['bury', [{ ...held, reason: 'fatal' }], 60_000], STOPPED_RENEWING],
  ],
  [
    { kind: 'dead', reason: 'takeover', attempt: 1 },
    [['bury', [{ ...held, reason: 'takeover' }], 60_000], STOPPED_RENEWING],
  ],
  [
    { kind: 'dead', reason: 'fingerprint-mismatch', attempt: 0, ref: { kind: 'refused', id: 'r' } },
    RELEASED,
  ],
  [{ kind: 'in-progress', delayMs: 5, cause: 'held-by-row' }, RELEASED],
  [{ kind: 'not-due', delayMs: 5, cause: 'not-due' }, RELEASED],
  [{ kind: 'conflict', policy: 'ack', error }, RELEASED],
  [{ kind: 'store-down', delayMs: 5, error, cause: 'store-error' }, RELEASED],
  [{ kind: 'abandoned', reason: 'closing' }, RELEASED],
  // The handler is still running, so the next owner must wait until the lease expires.
  [{ kind: 'abandoned', reason: 'closing', stillRunning: true }, [STOPPED_RENEWING]],
]

test.each(ROWS)('after %o the lease store gets the right call, once', async (outcome, heard) => {
  expect(await told(outcome)).toEqual(heard)
})

test('without an inbox the result is stored already', async () => {
  const outcome = { kind: 'processed', attempt: 1, result: 7 } as const
  expect(await told(outcome, leased, false, { inbox: undefined })).toEqual([STOPPED_RENEWING])
})

test('no call is made for an event that was never claimed', async () => {
  const unleased = { ...leased, lease: undefined }
  expect(await told({ kind: 'processed', attempt: 1 }, unleased)).toEqual([])
})

test('an undecided takeover keeps its lease, unless it ended', async () => {
  const undecided = { ...leased, isUndecided: true }
  for (const [outcome, heard] of ROWS) {
    const hasEnded = outcome.kind === 'processed' || outcome.kind === 'dead'
    expect(await told(outcome, undecided)).toEqual(hasEnded ? heard : [STOPPED_RENEWING])
  }
})

test('a lease store that does not answer causes no error, and the lease is no longer renewed', async () => {
  const heard = await told(
    { kind: 'failed', attempt: 1, delayMs: 5, error, cause: 'handler-failed' },
    leased,
    true,
  )
  expect(heard).toEqual([['fail', [{ ...held, delayMs: 5 }]], STOPPED_RENEWING])
})

test('a run whose caller retries frees its key when it fails', async () => {
  const failed = { kind: 'failed', attempt: 1, delayMs: 0, error, cause: 'handler-failed' } as const
  const callerRetries = { isAnswer: () => false }
  expect(await told(failed, leased, false, { callerRetries })).toEqual(RELEASED)
})
