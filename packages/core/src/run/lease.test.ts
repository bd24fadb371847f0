import { describe, expect, test } from 'vitest'
import { createBreaker } from '../concurrency/breaker.ts'
import { createInFlight } from '../concurrency/in-flight.ts'
import { stopSignals } from '../concurrency/stop-signals.ts'
import { Clock } from '../fixtures/clock.ts'
import { newEvent, silent } from '../fixtures/inbox.ts'
import { createGuard } from '../guard/guard.ts'
import { createStoreOpener } from '../guard/open-stores.ts'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryLeases, toDelivery } from '../memory/index.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { InFlightEvent } from '../model/in-flight-event.ts'
import type { ClaimResult, LeaseStore } from '../model/lease-store.ts'
import type { LeaseGuardOptions } from '../options/options.ts'
import type { Received } from '../receive/receive.ts'
import type { Outcome } from '../settlement/outcome.ts'
import { runUnclaimed } from './none.ts'
import { processReceived } from './process.ts'
import { startProcessing } from './processing.ts'

type Concluded = readonly [string, Outcome, Pick<InFlightEvent, 'isUndecided' | 'lease'>]

const down = new StoreUnavailableError('down')
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const acquired: ClaimResult = { kind: 'acquired', by: 'first', attempt: 1 }

function member(name: string, lane?: string): InFlightEvent {
  return { index: 0, event: newEvent(), payload: name, lane, suspect: false }
}

/** Events of a guard without an inbox. The test gives the store's answer to each call of `claim`. */
async function setUp(
  handler: (payload: unknown) => unknown = () => undefined,
  given: Partial<LeaseGuardOptions<unknown>> = {},
  answers: readonly (readonly ClaimResult[] | Error)[] = [],
) {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0 }
  const leases = memoryLeases(runtime)
  let claims = 0
  const claim: LeaseStore['claim'] = async (asked) => {
    const answer = answers[claims]
    claims += 1
    if (answer instanceof Error) throw answer
    return answer ?? leases.claim(asked)
  }
  const complete: LeaseStore['complete'] = async (done) => done.map(() => 'held')
  const common = { consumer: 'mailing', leases: { ...leases, claim, complete }, logger: silent }
  const options = resolveOptions({ ...common, onTakeover: 'retry', runtime, ...given })
  const ran: unknown[] = []
  const call = {
    kind: 'single',
    handler: async ({ payload }: { readonly payload: unknown }) => {
      ran.push(payload)
      await handler(payload)
    },
  } as const
  const stores = await createStoreOpener(options, call)()
  if (stores.engine !== undefined) throw new Error('a guard without an inbox has no engine')
  const stop = new AbortController()
  const context = {
    ...{ options, call, stores, signals: stopSignals([stop.signal]) },
    ...{ breaker: createBreaker(runtime), inFlight: createInFlight(runtime) },
    observe: () => undefined,
  }
  const concluded: Concluded[] = []
  const run = async (...members: readonly InFlightEvent[]) => {
    const events = members.map(
      (each, index): Received => ({ member: { ...each, index }, copies: [], hasKey: true }),
    )
    const observe = (index: number, outcome: Outcome): void => {
      const { member: held } = events[index] as Received
      concluded.push([String(held.payload), outcome, held])
    }
    await processReceived(startProcessing(context, { ...context, observe }), {
      events,
      decided: [],
    })
  }
  return { ...{ clock, context, concluded, stop, ran, run }, claims: () => claims }
}

const kinds = (concluded: readonly Concluded[]) => concluded.map(([name, { kind }]) => [name, kind])

test('a lane runs in order and stops at its first failure; later events settle with their leases', async () => {
  const kit = await setUp((payload) => {
    if (payload === 'a2') throw new Error('not now')
  })
  await kit.run(member('a1', 'a'), member('a2', 'a'), member('b1', 'b'), member('a3', 'a'))
  expect(kit.ran.toSorted()).toEqual(['a1', 'a2', 'b1'])
  const lane = kit.concluded.filter(([name]) => name.startsWith('a'))
  expect(kinds(lane)).toEqual([
    ['a1', 'processed'],
    ['a2', 'failed'],
    ['a3', 'not-due'],
  ])
  expect(kit.concluded.every(([, , { lease }]) => lease !== undefined)).toBe(true)
  expect(kit.claims()).toBe(1)
})

test('lanes run side by side, and so do events without a lane', async () => {
  const gate = Promise.withResolvers<void>()
  const kit = await setUp((payload) => (payload === 'a1' ? gate.promise : undefined))
  const running = kit.run(member('a1', 'a'), member('a2', 'a'), member('b1', 'b'), member('c'))
  await turn()
  expect(kinds(kit.concluded)).toEqual([
    ['b1', 'processed'],
    ['c', 'processed'],
  ])
  gate.resolve()
  await running
  expect(kinds(kit.concluded.slice(2))).toEqual([
    ['a1', 'processed'],
    ['a2', 'processed'],
  ])
})

test('the first event that stops a lane gives the reason to all later events', async () => {
  const held: ClaimResult = { kind: 'not-due', remainingMs: 5 }
  const later: ClaimResult = { kind: 'not-due', remainingMs: 9 }
  const kit = await setUp(undefined, {}, [[held, later, acquired]])
  await kit.run(member('a1', 'a'), member('a2', 'a'), member('a3', 'a'))
  const notDue = { kind: 'not-due', delayMs: 5, cause: 'not-due' }
  expect(kit.concluded.map(([name, outcome]) => [name, outcome])).toEqual([
    ['a1', notDue],
    ['a2', { ...notDue, cause: 'lane-waits' }],
    ['a3', { ...notDue, cause: 'lane-waits' }],
  ])
  expect(kit.ran).toEqual([])
})

describe('an event that another process holds', () => {
  const inProgress: ClaimResult = { kind: 'in-progress', remainingMs: 20_000 }

  test('is claimed again before it is deferred', async () => {
    const kit = await setUp(undefined, { claimWaitMs: 100 }, [[inProgress]])
    const running = kit.run(member('a'))
    await expect.poll(() => kit.clock.timers).toBeGreaterThan(0)
    kit.clock.advance(10)
    await running
    expect(kinds(kit.concluded)).toEqual([['a', 'processed']])
    expect(kit.claims()).toBe(2)
  })

  // Red when the wait takes the place of a run: free events waited for a process that may be dead.
  test('keeps no free event waiting, but the later events of its lane', async () => {
    const options = { claimWaitMs: 100, concurrency: 1 }
    const kit = await setUp(undefined, options, [[inProgress, acquired, acquired]])
    const running = kit.run(member('a1', 'a'), member('a2', 'a'), member('b', 'b'))
    await expect.poll(() => kit.clock.timers).toBeGreaterThan(0)
    expect(kinds(kit.concluded)).toEqual([['b', 'processed']])
    kit.clock.advance(10)
    await running
    expect(kit.ran).toEqual(['b', 'a1', 'a2'])
  })

  test('is not waited for once its lane has stopped', async () => {
    const kit = await setUp(undefined, {}, [[{ kind: 'not-due', remainingMs: 5 }, inProgress]])
    await kit.run(member('a1', 'a'), member('a2', 'a'))
    expect(kinds(kit.concluded)).toEqual([
      ['a1', 'not-due'],
      ['a2', 'not-due'],
    ])
    expect(kit.claims()).toBe(1)
  })
})

describe('a takeover', () => {
  const takeover: ClaimResult = { kind: 'acquired', by: 'takeover', attempt: 2 }

  test.each([
    ['that was answered is decided', () => ({ kind: 'retry' }) as const, false],
    ['that nobody answered is undecided', () => Promise.reject(new Error('no answer')), true],
  ])('%s', async (_, onTakeover, isUndecided) => {
    const kit = await setUp(undefined, { onTakeover }, [[takeover]])
    await kit.run(member('a'))
    expect(kit.concluded).toMatchObject([['a', {}, { isUndecided }]])
  })

  test('that did not run because its lane stopped is undecided', async () => {
    const kit = await setUp(undefined, {}, [[{ kind: 'not-due', remainingMs: 5 }, takeover]])
    await kit.run(member('a1', 'a'), member('a2', 'a'))
    expect(kit.concluded).toMatchObject([
      ['a1', {}, {}],
      ['a2', { kind: 'not-due' }, { isUndecided: true }],
    ])
  })

  test('does not happen for the first owner', async () => {
    const kit = await setUp(() => Promise.reject(new Error('not now')))
    await kit.run(member('a'))
    expect(kit.concluded).toMatchObject([['a', { kind: 'failed' }, { isUndecided: false }]])
  })
})

describe('while the store is down', () => {
  test('no event runs, and all are deferred for a second', async () => {
    const kit = await setUp(undefined, { onStoreDown: 'wait' }, [down])
    await kit.run(member('a'), member('b'))
    const outcome = { kind: 'store-down', delayMs: 1_000, error: down, cause: 'store-error' }
    expect(kit.concluded).toMatchObject([
      ['a', outcome, {}],
      ['b', outcome, {}],
    ])
    expect(kit.ran).toEqual([])
  })

  test('all events run without the store by policy', async () => {
    const kit = await setUp(undefined, { onStoreDown: 'unguarded' }, [down])
    await kit.run(member('a'), member('b'))
    expect(kinds(kit.concluded)).toEqual([
      ['a', 'unguarded'],
      ['b', 'unguarded'],
    ])
    expect(kit.ran).toEqual(['a', 'b'])
  })
})

test('handlers run up to the given concurrency; after a stop, waiting events are returned', async () => {
  const gate = Promise.withResolvers<void>()
  const kit = await setUp(() => gate.promise, { concurrency: 1 })
  const running = kit.run(member('a'), member('b'))
  await turn()
  expect(kit.ran).toEqual(['a'])
  kit.stop.abort()
  await turn()
  const closing = { kind: 'abandoned', reason: 'closing' }
  expect(kit.concluded).toMatchObject([['b', closing, {}]])
  gate.resolve()
  await running
  expect(kinds(kit.concluded)).toEqual([
    ['b', 'abandoned'],
    ['a', 'processed'],
  ])
})

test('a slot is released after each run and after a stop', async () => {
  const kit = await setUp(undefined, { concurrency: 1 })
  await kit.run(member('a'), member('b'), member('c', 'c'), member('d', 'c'))
  expect(kit.ran).toHaveLength(4)
  kit.stop.abort()
  await kit.run(member('e'))
  expect(kinds(kit.concluded.slice(4))).toEqual([['e', 'abandoned']])
  expect(kit.ran).toHaveLength(4)
  expect(kit.context.stores.slots.tryAcquire()).toBeTypeOf('function')
})

test('without a key an event runs without a claim', async () => {
  const kit = await setUp()
  const run = await runUnclaimed(startProcessing(kit.context, kit.context), member('a'))
  // Without the hook `observe`, handlers are not timed.
  expect(run).toEqual({ outcome: { kind: 'unguarded' }, handlerMs: undefined })
  expect([kit.ran, kit.claims()]).toEqual([['a'], 0])
})

// Red before: frozen between its claim and the answer, an owner started its handler beside the next owner.
test('a claim that is answered after its lease expired does not run if the event has another owner', async () => {
  const clock = new Clock()
  const leases = memoryLeases(clock.runtime)
  const ran: string[] = []
  const common = { consumer: 'mailing', onTakeover: 'retry', logger: silent } as const
  const successor = createGuard({ ...common, leases, runtime: clock.runtime }, () => {
    ran.push('successor')
  })
  const delivery = toDelivery('mail')
  const frozen: LeaseStore = {
    ...leases,
    claim: async (claims) => {
      const answers = await leases.claim(claims)
      clock.advance(60_000)
      await successor.process(delivery)
      return answers
    },
  }
  const owner = createGuard({ ...common, leases: frozen, runtime: clock.runtime }, () => {
    ran.push('owner')
  })
  expect(await owner.process(delivery)).toMatchObject({ kind: 'abandon', cause: 'lease-lost' })
  expect(ran).toEqual(['successor'])
})
