import { describe, expect, test } from 'vitest'
import { createAloneLock } from '../../concurrency/alone-lock.ts'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import { memoryLeases, toDelivery } from '../../memory/index.ts'
import { StoreUnavailableError } from '../../model/errors.ts'
import type { HeldAnswer, LeaseStore } from '../../model/lease-store.ts'
import { createGuard } from '../guard.ts'

const LEASE_MS = 30_000
const turns = async (): Promise<void> => {
  for (let n = 0; n < 20; n += 1) await new Promise((resolve) => setImmediate(resolve))
}
const named = (name: string) => toDelivery(name, { messageId: name })

type Answer = HeldAnswer | 'down'

/** A lease-only guard with one slot. The test decides what each renewal answers. */
function setUp() {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5, alone: createAloneLock() }
  const state: { renewals: Answer; asked: number } = { renewals: 'held', asked: 0 }
  const leases = memoryLeases(runtime)
  const renew: LeaseStore['renew'] = async (held) => {
    state.asked += 1
    const { renewals } = state
    if (renewals === 'down') throw new StoreUnavailableError('down')
    return held.map(() => renewals)
  }
  const ran: unknown[] = []
  const gate = Promise.withResolvers<void>()
  const guard = createGuard(
    {
      ...{ consumer: 'mailing', leases: { ...leases, renew }, logger: silent, runtime },
      ...{ onTakeover: 'retry', leaseMs: LEASE_MS, concurrency: 1 },
    },
    async ({ payload }) => {
      ran.push(payload)
      if (payload === 'slow') await gate.promise
    },
  )
  return { clock, gate, guard, ran, runtime, state }
}

type Kit = ReturnType<typeof setUp>

/** Begins a wait. The returned function ends it. */
const WAITS: readonly (readonly [string, (kit: Kit) => Promise<() => void>])[] = [
  [
    'a slot',
    async ({ gate, guard }) => {
      void guard.process(named('slow'))
      await turns()
      return gate.resolve
    },
  ],
  [
    'an event that runs alone',
    async ({ runtime }) => {
      const release = await runtime.alone.exclusive()
      return () => release?.()
    },
  ],
]

describe.each(WAITS)('a lease-only event that waited for %s', (_, wait) => {
  for (const leftMs of [
    LEASE_MS,
    (LEASE_MS * 2) / 3,
    (LEASE_MS * 2) / 3 - 1,
    1,
    0,
    -1,
    -LEASE_MS,
  ]) {
    for (const answer of ['held', 'lost', 'down'] as const) {
      const isFresh = leftMs >= (LEASE_MS * 2) / 3
      const starts = isFresh || answer === 'held'
      test(`with ${leftMs} ms left and a renewal that answers ${answer} ${starts ? 'starts' : 'does not start'}`, async () => {
        const kit = setUp()
        const end = await wait(kit)
        const waiting = kit.guard.process(named('waiting'))
        await turns()
        // The process is frozen: no timer renews the lease.
        const frozen = kit.clock.runtime.monotonic() + LEASE_MS - leftMs
        kit.runtime.monotonic = () => frozen
        kit.state.renewals = answer
        end()
        const settlement = await waiting
        expect(kit.ran.includes('waiting')).toBe(starts)
        expect(settlement).toMatchObject(
          starts ? { kind: 'ack', by: 'processed' } : { kind: 'abandon', reason: 'lease-lost' },
        )
        expect(kit.state.asked).toBe(isFresh ? 0 : 1)
      })
    }
  }
})
