import { afterEach, describe, expect, test, vi } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { createShift } from '../../fixtures/shift.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import type { Delivery } from '../../model/delivery.ts'
import { createGuard } from '../guard.ts'

const SLOTS = 8
const named = (n: number): Delivery => toDelivery(n, { messageId: `m${n}` })

afterEach(() => {
  vi.restoreAllMocks()
})

const COMPOSITIONS = [
  ['keyed events', {}, named],
  ['suspects', {}, (n: number) => ({ ...named(n), redelivered: true })],
  ['messages without a key', {}, (n: number) => toDelivery(n, { headers: {} })],
  ['events beside leases', { leases: memoryLeases() }, named],
  ['lease-only events', { inbox: undefined, leases: memoryLeases(), onTakeover: 'retry' }, named],
  [
    'lease-only messages without a key',
    { inbox: undefined, leases: memoryLeases(), onTakeover: 'retry' },
    (n: number) => toDelivery(n, { headers: {} }),
  ],
] as const

/** Counts the handlers that run and the listeners that wait for a slot, while a guard processes a batch. */
async function measured(index: number, size: number) {
  const [, given, delivery] = COMPOSITIONS[index] ?? COMPOSITIONS[0]
  const listening = vi.spyOn(AbortSignal.prototype, 'addEventListener')
  let running = 0
  let most = 0
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox: memoryInbox(), logger: silent, concurrency: SLOTS },
      ...{ onMissingKey: 'unguarded', runtime: createShift().runtime },
      ...given,
    } as Parameters<typeof createGuard>[0],
    async () => {
      running += 1
      most = Math.max(most, running)
      await new Promise((resolve) => setImmediate(resolve))
      running -= 1
    },
  )
  const before = listening.mock.calls.length
  const settlements = await guard.processBatch(Array.from({ length: size }, (_, n) => delivery(n)))
  const perEvent = (listening.mock.calls.length - before) / size
  await guard.close()
  expect(settlements.every(({ kind }) => kind === 'ack')).toBe(true)
  return { most, perEvent }
}

// Red before: every event of a batch waited for a slot at once, and each looked through the listeners of all others.
describe.each(COMPOSITIONS.map(([name], index) => [name, index] as const))(
  'a large batch of %s',
  (_, index) => {
    test('fills the slots, and its waiting events add no listeners', async () => {
      const { most, perEvent } = await measured(index, 1_000)
      expect(most).toBe(SLOTS)
      // The lease of a run has a listener of its own, and the batch has one for its stop.
      const [, given = {}] = COMPOSITIONS[index] ?? []
      expect(perEvent).toBeLessThan('leases' in given ? 1.1 : 0.1)
    })
  },
)
