import { describe, expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import { troubled } from '../../fixtures/troubled.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { decideCount } from '../../model/attempt-machine.ts'
import type { Fingerprint } from '../../model/brands.ts'
import type { Known } from '../../model/inbox.ts'
import type { ClaimResult } from '../../model/lease-store.ts'
import { createGuard } from '../guard.ts'

const LEASE_MS = 30_000
const MAX_MS = 20_000
const DAY_MS = 86_400_000
const ODD = [
  Number.NaN,
  Number.NEGATIVE_INFINITY,
  -DAY_MS,
  -1,
  0,
  1,
  DAY_MS,
  Number.POSITIVE_INFINITY,
]
const redelivered = { ...toDelivery('a', { messageId: 'a' }), redelivered: true }

/** How long a guard defers an event whose lease store gives that answer, ms. Undefined if the event runs. */
async function deferredFor(
  answer: ClaimResult,
  composition: 'inbox' | 'leases',
): Promise<number | undefined> {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.999 }
  const leases = { ...memoryLeases(runtime), claim: async () => [answer] }
  const common = { consumer: 'billing', leases, leaseMs: LEASE_MS, logger: silent, runtime }
  const given = { ...common, retry: { maxMs: MAX_MS }, claimWaitMs: 1 }
  const guard =
    composition === 'inbox'
      ? createGuard({ ...given, inbox: memoryInbox() }, () => undefined)
      : createGuard({ ...given, onTakeover: 'retry' }, () => undefined)
  const settlement = await clock.until(guard.process(redelivered))
  await guard.close()
  return settlement.kind === 'defer' ? settlement.until - clock.runtime.now() : undefined
}

describe.each(['inbox', 'leases'] as const)('a lease store, composition: %s', (composition) => {
  test.each(ODD)(
    'that answers in-progress for %d ms defers for a second to a lease and its jitter',
    async (remainingMs) => {
      const waitMs = await deferredFor({ kind: 'in-progress', remainingMs }, composition)
      // Beside an inbox the row decides then.
      if (composition === 'inbox' && remainingMs > LEASE_MS) return expect(waitMs).toBeUndefined()
      expect(waitMs).toBeGreaterThanOrEqual(1_000)
      expect(waitMs).toBeLessThanOrEqual((LEASE_MS * 4) / 3)
    },
  )

  test.each(ODD)(
    'that answers not-due for %d ms defers for at most the longest back-off',
    async (remainingMs) => {
      const waitMs = await deferredFor({ kind: 'not-due', remainingMs }, composition)
      if (composition === 'inbox' && remainingMs > MAX_MS) return expect(waitMs).toBeUndefined()
      expect(waitMs).toBeGreaterThanOrEqual(0)
      expect(waitMs).toBeLessThanOrEqual(MAX_MS)
    },
  )
})

/** How a guard settles an event of which the inbox says that. */
async function settledBy(change: (known: Known) => Known) {
  const kit = troubled(
    () => undefined,
    {
      session: (session) => ({
        classify: async (events) => (await session.classify(events)).map(change),
      }),
    },
    { retry: { maxMs: MAX_MS } },
  )
  await kit.crash(redelivered)
  const settlement = await kit.guard.process(redelivered)
  const waitMs = settlement.kind === 'defer' ? settlement.until - kit.runtime.now() : undefined
  await kit.guard.close()
  return waitMs
}

test.each(ODD)(
  'an inbox that answers %d ms defers for at most the longest back-off',
  async (remainingMs) => {
    const fingerprint = 0n as Fingerprint
    const waiting = { kind: 'waiting', fingerprint, remainingMs, attempt: 1, alone: false } as const
    const waitMs = await settledBy(() => waiting as Known)
    // The row itself is counted a moment ago, so an event that is due is held.
    expect(waitMs).toBeGreaterThanOrEqual(0)
    expect(waitMs).toBeLessThanOrEqual(MAX_MS)
  },
)

test.each(ODD)(
  'an inbox that says a run is %d ms old never defers for longer than the row is young',
  async (ageMs) => {
    const waitMs = await settledBy((known) =>
      known.kind === 'running' ? { ...known, ageMs } : known,
    )
    if (waitMs === undefined) return
    expect(waitMs).toBeGreaterThanOrEqual(0)
    expect(waitMs).toBeLessThanOrEqual(5_000)
  },
)

test.each([0, -1, Number.NEGATIVE_INFINITY])(
  'an event that is due for %d ms is counted',
  (remainingMs) => {
    const known = { kind: 'waiting', remainingMs, attempt: 1, alone: false } as Known
    const request = { noVerdicts: 0, run: 'together', maxAttempts: 3 } as const
    expect(decideCount(known, request)).toEqual({ kind: 'counted', attempt: 2 })
  },
)
