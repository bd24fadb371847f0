import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import { createGuard } from '../guard.ts'

// How users test their handlers: with the timers of their test runner, and with no clock of ours.
beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const options = { consumer: 'billing', eventKey: () => 'order-1', logger: silent }

test('a failed event is due again when the fake timers have passed its delay', async () => {
  let runs = 0
  await using guard = closing(
    createGuard({ ...options, inbox: memoryInbox() }, async () => {
      runs += 1
      throw new Error('the bank is down')
    }),
  )
  const delivery = toDelivery({})
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'failed' })
  await guard.process(delivery)
  expect(runs).toBe(1)
  await vi.advanceTimersByTimeAsync(3_600_000)
  await guard.process(delivery)
  expect(runs).toBe(2)
})

test('a handler that hangs ends at its deadline by the fake timers', async () => {
  const hang = (): Promise<void> => new Promise(() => undefined)
  await using guard = closing(
    createGuard({ ...options, inbox: memoryInbox(), deadlineMs: 5_000 }, hang),
  )
  const processing = guard.process(toDelivery({}))
  await vi.advanceTimersByTimeAsync(5_000)
  expect(await processing).toMatchObject({ kind: 'defer', reason: 'failed' })
})

function closing(guard: ReturnType<typeof createGuard>): typeof guard & AsyncDisposable {
  return {
    ...guard,
    [Symbol.asyncDispose]: async () => {
      const closed = guard.close()
      await vi.advanceTimersByTimeAsync(60_000)
      await closed
    },
  }
}
