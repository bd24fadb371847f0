import { expect, test, vi } from 'vitest'
import { silent } from '../fixtures/inbox.ts'
import { createShift } from '../fixtures/shift.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import { FatalError } from '../model/errors.ts'
import type { Guard } from '../model/guard-port.ts'
import type { LeaseSession, LeaseStore } from '../model/lease-store.ts'
import type { GuardOptions, Handler } from '../options/options.ts'
import { createCallerGuard, createGuard } from './guard.ts'

type Given = Partial<GuardOptions<unknown, undefined>>
const shift = createShift()
const { runtime } = shift
const common = { consumer: 'charges', logger: silent, runtime, onConflict: 'ack' } as const
const callers = { isAnswer: () => false }

function guardOf(given: Given, handler: Handler<unknown, unknown>): Guard {
  const options = { ...common, ...given } as GuardOptions<unknown, unknown>
  return createCallerGuard('createTestGuard', options, { ...callers, handler })
}

/** Fails `failures` times, then answers. */
const failing = (failures: number, error: unknown = new Error('card network down')) => {
  let runs = 0
  return vi.fn(() => {
    runs += 1
    if (runs <= failures) throw error
    return 'charged'
  })
}

const STORES = {
  'an inbox': (): Given => ({ inbox: memoryInbox() }),
  'an inbox and leases': (): Given => ({ inbox: memoryInbox(), leases: memoryLeases() }),
  'leases alone': (): Given => ({ leases: memoryLeases(), onTakeover: 'dead-letter' }) as Given,
}

test.each(Object.entries(STORES))(
  'with %s a failed event runs again at once, as often as its caller asks',
  async (_name, stores) => {
    const guard = guardOf(stores(), failing(25))
    const delivery = toDelivery({ cents: 5 })
    for (let run = 1; run <= 25; run++) {
      const failed = await guard.process(delivery)
      expect(failed).toMatchObject({ kind: 'defer', reason: 'failed', cause: 'handler-failed' })
    }
    expect(await guard.process(delivery)).toMatchObject({ by: 'processed', result: 'charged' })
    expect(await guard.process(delivery)).toMatchObject({ by: 'duplicate', result: 'charged' })
    await guard.close()
  },
)

test.each(Object.entries(STORES))(
  'with %s a fatal error dead-letters nothing',
  async (_name, stores) => {
    const given = stores()
    const guard = guardOf(given, failing(1, new FatalError('no such account')))
    const delivery = toDelivery({ cents: 5 })
    expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'failed' })
    expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
    if ('inbox' in given)
      expect((given.inbox as ReturnType<typeof memoryInbox>).deadLetters()).toEqual([])
    await guard.close()
  },
)

test('a refused event is answered and not recorded', async () => {
  const inbox = memoryInbox()
  const guard = guardOf({ inbox }, failing(0))
  const body = new TextEncoder().encode('{')
  expect(await guard.process(toDelivery(1, { body }))).toMatchObject({
    kind: 'dead-letter',
    reason: 'invalid-payload',
  })
  expect(await guard.process(toDelivery(1, { headers: {} }))).toMatchObject({
    reason: 'missing-event-key',
  })
  expect(inbox.deadLetters()).toEqual([])
  await guard.close()
})

test('with leases alone an event keeps its lease while a handler past its deadline still runs', async () => {
  const stuck = Promise.withResolvers<string>()
  const handler = vi.fn(() => stuck.promise)
  const given = { leases: memoryLeases(), onTakeover: 'retry', deadlineMs: 20 } as Given
  const guard = guardOf({ ...given, claimWaitMs: 1 }, handler)
  const delivery = toDelivery({ cents: 5 })
  expect(await guard.process(delivery)).toMatchObject({ kind: 'abandon', reason: 'deadline' })
  expect(await guard.process(delivery)).toMatchObject({ reason: 'in-progress' })
  expect(handler).toHaveBeenCalledTimes(1)
  stuck.resolve('charged')
  await guard.close()
})

test('an event that another guard of the consumer has parked waits and is counted as there', async () => {
  const inbox = memoryInbox()
  const delivery = toDelivery({ cents: 5 })
  const worker = createGuard(
    { ...common, inbox, retry: { attempts: 3, baseMs: 60_000 } },
    failing(1),
  )
  expect(await worker.process(delivery)).toMatchObject({ reason: 'failed' })
  const guard = guardOf({ inbox }, failing(0))
  expect(await guard.process(delivery)).toMatchObject({ kind: 'defer', reason: 'not-due' })
  await Promise.all([worker.close(), guard.close()])
})

test.each([
  ['an error', false, ['warn']],
  ['a deliberate answer', true, ['debug']],
] as const)('%s of the handler is logged as %j: %j', async (_what, isAnswer, levels) => {
  const seen: string[] = []
  const line = (level: string) => () => void seen.push(level)
  const logger = {
    debug: line('debug'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  }
  const options = { ...common, logger, inbox: memoryInbox() } as GuardOptions<unknown, unknown>
  const handler = failing(1)
  const guard = createCallerGuard('createTestGuard', options, { isAnswer: () => isAnswer, handler })
  await guard.process(toDelivery(1))
  expect(seen).toEqual(levels)
  await guard.close()
})

test('an error of the options names the function that the user called', () => {
  const options = { consumer: 'charges', inbox: memoryInbox(), leaze: 1 } as never
  expect(() =>
    createCallerGuard('createTestGuard', options, { ...callers, handler: failing(0) }),
  ).toThrow(/createTestGuard does not know "leaze"/)
})

/** A process that dies in each of its runs leaves its lease behind. */
function dyingLeases(): { readonly store: LeaseStore; readonly calls: string[] } {
  const store = memoryLeases(runtime)
  const calls: string[] = []
  const dying = (session: LeaseSession): LeaseSession => ({
    claim: (claims) => session.claim(claims),
    renew: (held, leaseMs) => session.renew(held, leaseMs),
    complete: (done, rememberMs) => session.complete(done, rememberMs),
    fail: async (failed) => {
      calls.push('fail')
      return failed.map(() => 'held')
    },
    release: async (held) => {
      calls.push('release')
      return held.map(() => 'held')
    },
    bury: async (dead) => {
      calls.push('bury')
      return dead.map(() => 'held')
    },
  })
  const open: LeaseStore['open'] = async (registration) =>
    dying((await store.open?.(registration)) ?? store)
  return { store: { ...store, open }, calls }
}

test('with leases alone an event is never dead, however many of its runs end with their process', async () => {
  const { calls, store: leases } = dyingLeases()
  const guard = guardOf({ leases, onTakeover: 'retry', claimWaitMs: 1 } as Given, failing(25))
  const delivery = toDelivery({ cents: 5 })
  for (let run = 1; run <= 25; run++) {
    expect(await guard.process(delivery)).toMatchObject({ reason: 'failed' })
    expect(await guard.process(delivery)).toMatchObject({ reason: 'in-progress' })
    shift.forward(31_000)
  }
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(new Set(calls)).toEqual(new Set(['release']))
  await guard.close()
})

test('with an inbox a taken-over event is not counted before its run', async () => {
  const { store: leases } = dyingLeases()
  const inbox = memoryInbox()
  const counts = vi.fn()
  const watched: typeof inbox = {
    ...inbox,
    open: async (registration) => {
      const session = await inbox.open(registration)
      const suspect: typeof session.suspect = (...asked) => {
        counts()
        return session.suspect(...asked)
      }
      return new Proxy(session, {
        get: (target, name) => {
          const found: unknown = name === 'suspect' ? suspect : Reflect.get(target, name)
          return typeof found === 'function' ? found.bind(target) : found
        },
      })
    },
  }
  const guard = guardOf({ inbox: watched, leases }, failing(1))
  const delivery = toDelivery({ cents: 5 })
  expect(await guard.process(delivery)).toMatchObject({ reason: 'failed' })
  shift.forward(31_000)
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(counts).not.toHaveBeenCalled()
  await guard.close()
})
