import { expect, test } from 'vitest'
import { memoryInbox, memoryLeases } from '../../memory/index.ts'
import { resolveOptions, settingsOf } from '../resolve-options.ts'

test('an adapter sees the options of its guard, each under its own name', () => {
  const options = {
    consumer: 'billing',
    inbox: memoryInbox(),
    concurrency: 3,
    leaseMs: 31_000,
    deadlineMs: 12_000,
    dedupWindowMs: 4 * 3_600_000,
    retry: { attempts: 7, baseMs: 100, maxMs: 9_000 },
  } as const
  const expected = {
    ...{ consumer: 'billing', concurrency: 3, inHand: 6, leaseMs: 31_000, deadlineMs: 12_000 },
    ...{ dedupWindowMs: 4 * 3_600_000, maxAttempts: 7, retryMaxMs: 9_000, transaction: 'each' },
    ...{ hasInbox: true, hasLeases: false, lanesAreUsers: false },
  }
  expect(settingsOf(resolveOptions(options))).toEqual(expected)
  const { inbox: _, ...others } = options
  const alone = { ...others, leases: memoryLeases(), onTakeover: 'retry', orderingKey: () => 'a' }
  expect(settingsOf(resolveOptions(alone as never))).toEqual({
    ...expected,
    ...{ inHand: 3, hasInbox: false, hasLeases: true, lanesAreUsers: true },
  })
})
