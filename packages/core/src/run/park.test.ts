import { setImmediate as turn } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { changedInbox, silent } from '../fixtures/inbox.ts'
import { createCallerGuard } from '../guard/guard.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import type { Delivery } from '../model/delivery.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import { type Guard, portOf } from '../model/guard-port.ts'
import type { DueEvent, Inbox, InboxSession } from '../model/inbox.ts'
import type { GuardOptions, Handler, OutcomeRecord } from '../options/options.ts'

interface Later {
  readonly guard: Guard
  /** Time passes only when the test says so. */
  readonly clock: Clock
  readonly records: OutcomeRecord[]
}

function laterGuard(
  inbox: Inbox<undefined>,
  handler: Handler<unknown, unknown>,
  given: Partial<GuardOptions<unknown, unknown>> = {},
): Later {
  const clock = new Clock()
  const records: OutcomeRecord[] = []
  const options = {
    ...{ consumer: 'c', inbox, logger: silent, runtime: clock.runtime, onConflict: 'ack' },
    observe: (record: OutcomeRecord) => void records.push(record),
    ...given,
  } as GuardOptions<unknown, unknown>
  const later = { isAnswer: () => false, runsLater: true }
  const guard = createCallerGuard('createTestGuard', options, { ...later, handler })
  return { guard, clock, records }
}

const order = (key: string, payload: unknown = { cents: 5 }): Delivery =>
  toDelivery(payload, { headers: { 'idempotency-key': key } })
const parked = { kind: 'ack', by: 'parked' }

/** Turns of the event loop until it is true, without time. */
async function soon(condition: () => boolean): Promise<void> {
  for (let turns = 0; turns < 10_000 && !condition(); turns += 1) await turn()
  expect(condition()).toBe(true)
}

const changedPark = (park: InboxSession<undefined>['park']): Inbox<undefined> =>
  changedInbox(memoryInbox(), () => ({ park }))

test('the deliveries of one call are parked, copies and used keys included, and run without a timer', async () => {
  const ran: unknown[] = []
  const { guard, records } = laterGuard(memoryInbox(), ({ key, payload }) => {
    ran.push([key, payload])
  })
  const some = [order('a'), order('b'), order('a'), order('b', { cents: 6 }), order('b')]
  expect(await guard.processBatch(some)).toEqual([
    ...[parked, parked, parked],
    { kind: 'ack', by: 'conflict' },
    parked,
  ])
  expect(records.map(({ repeated, settlement }) => [Object(settlement).by, repeated])).toEqual(
    expect.arrayContaining([
      ['parked', undefined],
      ['parked', undefined],
      ['parked', true],
      ['conflict', undefined],
      ['parked', true],
    ]),
  )
  await soon(() => ran.length === 2)
  expect(ran).toEqual([
    ['a', { cents: 5 }],
    ['b', { cents: 5 }],
  ])
  await soon(() => records.filter((record) => record.parked === true).length === 2)
  expect(await guard.process(order('a'))).toEqual({ kind: 'ack', by: 'duplicate' })
  expect(await guard.process(order('a', { cents: 6 }))).toEqual({ kind: 'ack', by: 'conflict' })
  await guard.close()
  expect(ran).toHaveLength(2)
})

test('a delivery takes no lease, before its run or for it', async () => {
  const leases = memoryLeases()
  const claim = vi.spyOn(leases, 'claim')
  const handler = vi.fn()
  const { guard, records } = laterGuard(memoryInbox(), handler, { leases } as never)
  expect(await guard.process(order('a'))).toEqual(parked)
  await soon(() => records.length === 2)
  expect(handler).toHaveBeenCalledTimes(1)
  expect(claim).not.toHaveBeenCalled()
  await guard.close()
})

test.each([
  ['held', { kind: 'defer', reason: 'in-progress', cause: 'held-by-row' }],
  ['too-large', { kind: 'defer', reason: 'failed', cause: 'not-stored' }],
] as const)('an event that is %s is deferred', async (kind, expected) => {
  const { guard, clock } = laterGuard(
    changedPark(async () => [{ kind }]),
    vi.fn(),
  )
  const settlement = await guard.process(order('a'))
  expect(settlement).toMatchObject(expected)
  expect(Object(settlement).until).toBeGreaterThan(clock.runtime.now())
  await guard.close()
})

test('an event that is sent again while it waits is parked once, and says that it was there', async () => {
  const gate = Promise.withResolvers<void>()
  const ran: unknown[] = []
  const { guard, records } = laterGuard(memoryInbox(), async ({ key }) => {
    ran.push(key)
    await gate.promise
  })
  expect(await guard.process(order('a'))).toEqual(parked)
  await soon(() => ran.length === 1)
  expect(await guard.process(order('a'))).toEqual(parked)
  expect(records.map(({ repeated }) => repeated)).toEqual([undefined, true])
  gate.resolve()
  await guard.close()
  expect(ran).toEqual(['a'])
})

test('a store that fails defers every delivery of the call and opens the breaker', async () => {
  const park = vi.fn(() => Promise.reject(new StoreUnavailableError('down')))
  const { guard } = laterGuard(changedPark(park), vi.fn())
  const down = { kind: 'defer', reason: 'store-down', cause: 'store-error' }
  expect(await guard.processBatch([order('a'), order('b')])).toMatchObject([down, down])
  expect(portOf(guard).availability()).toMatchObject({ kind: 'down' })
  expect(await guard.process(order('a'))).toMatchObject({ ...down, cause: 'breaker-open' })
  expect(park).toHaveBeenCalledTimes(1)
  await guard.close()
})

test('an answer of the store closes the breaker', async () => {
  let isDown = true
  const inbox = changedInbox(memoryInbox(), (session) => ({
    park: (events, waitMs) =>
      isDown ? Promise.reject(new StoreUnavailableError('down')) : session.park(events, waitMs),
  }))
  const { guard, clock } = laterGuard(inbox, vi.fn())
  await guard.process(order('a'))
  isDown = false
  clock.advance(60_000)
  expect(await guard.process(order('a'))).toEqual(parked)
  expect(portOf(guard).availability()).toEqual({ kind: 'available' })
  await guard.close()
})

test('events that take long hold up no others, and the next ones follow without a timer', async () => {
  const gate = Promise.withResolvers<void>()
  const ran: string[] = []
  const { guard } = laterGuard(
    memoryInbox(),
    async ({ key }) => {
      if (key.startsWith('slow')) await gate.promise
      else ran.push(key)
    },
    { concurrency: 20 },
  )
  const slow = Array.from({ length: 9 }, (_, index) => order(`slow-${index}`))
  await guard.processBatch(slow)
  const fast = Array.from({ length: 100 }, (_, index) => `fast-${index}`)
  await guard.processBatch(fast.map((key) => order(key)))
  await soon(() => ran.length === 100)
  expect(ran.toSorted()).toEqual(fast.toSorted())
  gate.resolve()
  await guard.close()
})

// Red when a search may start what ended while its answer was on the way: a message without a key would run twice.
test('an event that ends while a search is on the way does not run again', async () => {
  const [first, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const searches: (readonly DueEvent[])[] = []
  const inbox = changedInbox(memoryInbox(), (session) => ({
    // As PostgreSQL, whose search sees the row of an event that runs.
    due: async (limit) => {
      const found = [...(await session.due(limit)), ...(searches[0] ?? [])]
      searches.push(found)
      if (searches.length > 1) await answer.promise
      return searches.length > 2 ? [] : found
    },
  }))
  const { guard, records } = laterGuard(inbox, ({ key }) =>
    key === 'a' ? first.promise : undefined,
  )
  const ofRuns = (): readonly unknown[] =>
    records
      .filter((record) => record.parked === true)
      .map(({ settlement }) => Object(settlement).by)
  await guard.process(order('a'))
  await soon(() => searches.length === 1)
  await guard.process(order('b'))
  await soon(() => searches.length === 2)
  first.resolve()
  await soon(() => ofRuns().length === 1)
  answer.resolve()
  await soon(() => ofRuns().length >= 2)
  await guard.close()
  expect(ofRuns()).toEqual(['processed', 'processed'])
})

test('no more events run at the same time than the guard has slots', async () => {
  let [running, most] = [0, 0]
  const ran: string[] = []
  const { guard } = laterGuard(
    memoryInbox(),
    async ({ key }) => {
      most = Math.max(most, ++running)
      await turn()
      running -= 1
      ran.push(key)
    },
    { concurrency: 3 },
  )
  await guard.processBatch(Array.from({ length: 40 }, (_, index) => order(`e${index}`)))
  await soon(() => ran.length === 40)
  expect(most).toBe(3)
  await guard.close()
})

test('what waits is read every five seconds, and a failure keeps nothing', async () => {
  const answers = [
    async () => ({ deadLetters: {}, parked: 2, parkedForMs: 9, tables: [] }),
    () => Promise.reject(new Error('down')),
  ]
  const figures = vi.fn(() => (answers.shift() ?? (async () => undefined as never))())
  const { guard, clock } = laterGuard(
    changedInbox(memoryInbox(), () => ({ figures })),
    vi.fn(),
  )
  const port = portOf(guard)
  await port.open()
  expect(port.backlog()).toBeUndefined()
  clock.advance(1_000)
  await turn()
  expect(port.backlog()).toEqual({ events: 2, dueForMs: 9 })
  clock.advance(4_900)
  await turn()
  expect(figures).toHaveBeenCalledTimes(1)
  clock.advance(100)
  await turn()
  expect(figures).toHaveBeenCalledTimes(2)
  expect(port.backlog()).toBeUndefined()
  await guard.close()
})

test('a guard that runs its events at once reads nothing of what waits', async () => {
  const figures = vi.fn()
  const clock = new Clock()
  const options = { consumer: 'c', inbox: changedInbox(memoryInbox(), () => ({ figures })) }
  const guard = createCallerGuard(
    'createTestGuard',
    { ...options, logger: silent, runtime: clock.runtime } as GuardOptions<unknown, unknown>,
    { isAnswer: () => false, handler: () => undefined },
  )
  expect(await guard.process(order('a'))).toEqual({ kind: 'ack', by: 'processed' })
  for (let second = 0; second < 10; second += 1) {
    clock.advance(1_000)
    await turn()
  }
  expect(figures).not.toHaveBeenCalled()
  expect(portOf(guard).backlog()).toBeUndefined()
  await guard.close()
})

test('an event that is parked while nothing runs in the background waits for the next demand', async () => {
  const handler = vi.fn()
  const { clock, guard } = laterGuard(memoryInbox(), handler)
  const port = portOf(guard)
  const doDue = port.onDemand()
  expect(await guard.process(order('a'))).toEqual(parked)
  expect(port.backlog()).toBeUndefined()
  expect(handler).not.toHaveBeenCalled()
  await doDue()
  // The first poll is due within a second.
  clock.advance(1_000)
  await doDue()
  expect(handler).toHaveBeenCalledTimes(1)
  await guard.close()
})
