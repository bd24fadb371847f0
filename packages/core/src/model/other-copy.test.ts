import { afterAll, describe, expect, test, vi } from 'vitest'
import { setUp } from '../fixtures/guard.ts'
import { silent } from '../fixtures/inbox.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import * as own from './errors.ts'
import { portOf } from './guard-port.ts'
import type { Inbox } from './inbox.ts'

// As when `@onceward/postgres` was installed with a `@onceward/core` of its own, beside that of the program.
vi.resetModules()
const other = await import('./errors.ts')
afterAll(() => vi.resetModules())

const OWN = { ...own }
const OTHER = { ...other }
const NAMES = [
  'RetryableError',
  'FatalError',
  'InvalidPayloadError',
  'MissingKeyError',
  'ConflictError',
  'LeaseLostError',
  'DeadlineExceededError',
  'CommitUnknownError',
  'StoreUnavailableError',
  'ConfigurationError',
  'EnvelopeError',
] as const

// Red before: each copy knew only its own errors by `instanceof`.
describe('an error of another copy of the package', () => {
  test.each(NAMES)('is an instance of %s and of no other class', (name) => {
    const error = new OTHER[name]('why')
    expect(OTHER[name]).not.toBe(OWN[name])
    expect(error).toBeInstanceOf(own.OncewardError)
    expect(NAMES.filter((each) => error instanceof OWN[each])).toEqual([name])
  })

  test('is no instance of a class that a user derived, but of the class below it', () => {
    class Declined extends own.FatalError {}
    expect(new other.FatalError('why')).not.toBeInstanceOf(Declined)
    expect(new Declined('why')).toBeInstanceOf(other.FatalError)
    expect(new Declined('why')).toBeInstanceOf(Declined)
  })

  test('has the mark: what has only a code is of no class', () => {
    expect(new Error('why') instanceof own.OncewardError).toBe(false)
    expect({ code: 'ONCEWARD_FATAL' } instanceof own.FatalError).toBe(false)
  })
})

// Red before: the ordinary back-off.
test('a handler asks for its delay with the RetryableError of another copy', async () => {
  const { guard, shift } = setUp(() => {
    throw new other.RetryableError('later', { afterMs: 77_000 })
  })
  const settlement = await guard.process(toDelivery('order', { messageId: 'order' }))
  const delayMs = settlement.kind === 'defer' ? settlement.until - shift.runtime.now() : 0
  expect(delayMs).toBeGreaterThan(70_000)
  await guard.close()
})

// Red before: each call asked the store that was down, and no consumer paused.
test('a store of another copy that is down makes the guard unavailable', async () => {
  const inbox = memoryInbox()
  const down: Inbox<undefined> = {
    open: async (registration) => {
      const opened = await inbox.open(registration)
      const begin = () => Promise.reject(new other.StoreUnavailableError('down'))
      return Object.assign(Object.create(opened), { begin })
    },
  }
  const guard = createGuard({ consumer: 'billing', inbox: down, logger: silent }, () => undefined)
  for (let n = 0; n < 10; n += 1) {
    const settlement = await guard.process(toDelivery(n, { messageId: String(n) }))
    expect(settlement).toMatchObject({ kind: 'defer', reason: 'store-down' })
  }
  expect(portOf(guard).availability().kind).toBe('down')
  await guard.close()
})

// Red before: deferred for ever, and `process` did not reject.
test('tables that a store of another copy refuses are a ConfigurationError of `process`', async () => {
  const inbox: Inbox<undefined> = {
    open: () => Promise.reject(new other.ConfigurationError('no tables')),
  }
  const guard = createGuard(
    { consumer: 'billing', inbox, leases: memoryLeases(), logger: silent },
    () => undefined,
  )
  await expect(guard.process(toDelivery('order'))).rejects.toThrow('no tables')
  await guard.close()
})
