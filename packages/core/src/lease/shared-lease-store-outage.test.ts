import { describe, expect, test } from 'vitest'
import { systemRuntime } from '../concurrency/system-runtime.ts'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { createGuard } from '../guard/guard.ts'
import { memoryLeases, toDelivery } from '../memory/index.ts'
import { FatalError, StoreUnavailableError } from '../model/errors.ts'
import type { LeaseStore } from '../model/lease-store.ts'
import { sharedLeaseStore } from './shared-lease-store.ts'

test('an outage is logged once when it begins and once when it ends', async () => {
  const lines: string[] = []
  const say = (level: string) => (fields: object, message: string) => {
    const { err } = fields as { readonly err?: Error }
    lines.push([`${level}: ${message}`, err?.message].filter(Boolean).join(': '))
  }
  const logger = {
    debug: say('debug'),
    info: say('info'),
    warn: say('warn'),
    error: say('error'),
  }
  const store = memoryLeases()
  let isAway = false
  const leases = sharedLeaseStore(
    {
      ...store,
      claim: (claims) =>
        isAway ? Promise.reject(new StoreUnavailableError('away')) : store.claim(claims),
    },
    { logger, runtime: systemRuntime, releasesUnanswered: false },
  )
  await leases.claim([])
  isAway = true
  for (let n = 0; n < 3; n += 1) await leases.claim([]).catch(() => undefined)
  expect(leases.outage()).toEqual({ error: expect.objectContaining({ message: 'away' }) })
  isAway = false
  for (let n = 0; n < 3; n += 1) await leases.claim([])
  expect(leases.outage()).toBeUndefined()
  expect(lines).toEqual([
    'warn: the lease store does not answer: away',
    'info: the lease store answers again',
  ])
})

describe('a store that is away for longer than a lease, without an inbox', () => {
  /** A guard that dead-letters takeovers, and a store that gives no answer while it is away. */
  function setUp(handler: () => string, { carriesOut = false } = {}) {
    const clock = new Clock()
    const store = memoryLeases(clock.runtime)
    const calls = { runs: 0, isAway: false }
    const flaky = <Args extends readonly unknown[], Answer>(
      call: (...args: Args) => Promise<Answer>,
    ) => {
      return async (...args: Args): Promise<Answer> => {
        if (!calls.isAway) return call(...args)
        if (carriesOut) await call(...args)
        throw new StoreUnavailableError('away')
      }
    }
    const leases: LeaseStore = {
      claim: flaky(store.claim),
      renew: flaky(store.renew),
      complete: flaky(store.complete),
      fail: flaky(store.fail),
      release: flaky(store.release),
      bury: flaky(store.bury),
    }
    const guard = createGuard(
      {
        ...{ consumer: 'mailing', onTakeover: 'dead-letter', leases, logger: silent },
        ...{ runtime: clock.runtime, retry: { baseMs: 1, maxMs: 1 } },
      },
      () => {
        calls.runs += 1
        return handler()
      },
    )
    const delivery = toDelivery({}, { messageId: 'm' })
    const process = () => guard.process(delivery)
    /** The store is back, after the lease. */
    const comeBack = (): void => {
      calls.isAway = false
      clock.advance(60_000)
    }
    return { calls, comeBack, guard, process }
  }

  test('an effect whose result could not be stored is not a takeover: the result is stored later', async () => {
    const scenario = setUp(() => {
      scenario.calls.isAway = true
      return 'sent'
    })
    expect(await scenario.process()).toMatchObject({ kind: 'abandon', reason: 'lease-lost' })
    // No claim is made before the result is stored.
    expect(await scenario.process()).toMatchObject({ kind: 'defer', reason: 'store-down' })
    scenario.comeBack()
    expect(await scenario.process()).toMatchObject({ by: 'duplicate', result: 'sent' })
    expect(scenario.calls.runs).toBe(1)
    await scenario.guard.close()
  })

  test('an attempt whose failure could not be stored is not a takeover: the event is tried again', async () => {
    const scenario = setUp(() => {
      scenario.calls.isAway = scenario.calls.runs === 1
      if (scenario.calls.isAway) throw new Error('no answer')
      return 'sent'
    })
    expect(await scenario.process()).toMatchObject({ kind: 'defer', reason: 'failed' })
    scenario.comeBack()
    expect(await scenario.process()).toMatchObject({ by: 'processed', result: 'sent' })
    await scenario.guard.close()
  })

  test('a dead event whose end could not be stored stays dead', async () => {
    const scenario = setUp(() => {
      scenario.calls.isAway = true
      throw new FatalError('no such address')
    })
    expect(await scenario.process()).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
    scenario.comeBack()
    expect(await scenario.process()).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
    expect(scenario.calls.runs).toBe(1)
    await scenario.guard.close()
  })

  test('a claim whose answer was lost is not a takeover: it is released later', async () => {
    const scenario = setUp(() => 'sent', { carriesOut: true })
    scenario.calls.isAway = true
    expect(await scenario.process()).toMatchObject({ kind: 'defer', reason: 'store-down' })
    scenario.comeBack()
    expect(await scenario.process()).toMatchObject({ by: 'processed', result: 'sent' })
    await scenario.guard.close()
  })
})
