import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../memory/index.ts'
import { FatalError, StoreUnavailableError } from '../model/errors.ts'
import { type GuardPort, portOf } from '../model/guard-port.ts'
import type { Inbox } from '../model/inbox.ts'
import type { InboxGuardOptions, OutcomeRecord } from '../options/options.ts'
import { createGuard } from './guard.ts'

const down = new StoreUnavailableError('the database is down')
const source = { broker: 'test', queue: 'orders' }
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A guard on an inbox that the test can switch off, on a clock that stands still. */
function setUp(
  handler: () => unknown = () => undefined,
  options: Partial<InboxGuardOptions<unknown, undefined>> = {},
) {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const memory = memoryInbox()
  const state = { isDown: false, opened: 0, begun: 0 }
  const inbox: Inbox<undefined> = {
    open: async (registration) => {
      state.opened += 1
      if (state.isDown) throw down
      const session = await memory.open(registration)
      const begin: typeof session.begin = session.begin.bind(session)
      return Object.assign(session, {
        begin: (request: Parameters<typeof begin>[0]) => {
          state.begun += 1
          return state.isDown ? Promise.reject(down) : begin(request)
        },
      })
    },
  }
  const logged: object[] = []
  const logger = { ...silent, error: (fields: object) => void logged.push(fields) }
  const records: OutcomeRecord[] = []
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox, logger, runtime },
      observe: (record) => void records.push(record),
      ...options,
    },
    async () => void (await handler()),
  )
  return { clock, state, logged, records, guard, port: portOf(guard) }
}

test('stores that cannot be opened are opened again after a pause, and no event starts before that', async () => {
  const { clock, state, logged, guard, port } = setUp()
  expect(port.availability()).toEqual({ kind: 'available' })
  state.isDown = true
  const first = await guard.process(toDelivery({}))
  // Half of a second, plus half of the other half.
  const retryAt = 1_000_000 + 750
  const deferred = { kind: 'defer', reason: 'store-down', until: retryAt, error: down }
  expect(first).toEqual({ ...deferred, cause: 'store-error' })
  expect(port.availability()).toEqual({ kind: 'down', retryAt, error: down })
  expect(logged).toMatchObject([{ err: { message: down.message } }])
  clock.advance(700)
  expect(await guard.process(toDelivery({}))).toEqual({ ...deferred, cause: 'breaker-open' })
  expect(state.opened).toBe(1)
  state.isDown = false
  clock.advance(50)
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'ack', by: 'processed' })
  expect(state.opened).toBe(2)
  expect(port.availability()).toEqual({ kind: 'available' })
  await guard.close()
})

test('open stores that fail are not called until the pause is over', async () => {
  const { clock, state, guard } = setUp()
  await guard.process(toDelivery({}))
  state.isDown = true
  expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'defer', reason: 'store-down' })
  const { begun } = state
  const answer = await guard.process(toDelivery({}))
  expect(answer).toMatchObject({ kind: 'defer', until: 1_000_750, cause: 'breaker-open' })
  expect(state.begun).toBe(begun)
  state.isDown = false
  clock.advance(750)
  expect(await guard.process(toDelivery({}))).toMatchObject({ by: 'processed' })
  expect(state.opened).toBe(1)
  await guard.close()
})

// Red when every look at the stores counts as an answer of theirs: the pauses would not grow.
test('stores that are open and fail are asked after ever longer pauses, also if they are opened again', async () => {
  const { clock, state, guard, port } = setUp()
  await guard.process(toDelivery({}))
  state.isDown = true
  for (const pauseMs of [750, 1_500, 3_000, 6_000]) {
    await guard.process(toDelivery({}))
    await port.open()
    expect(port.availability()).toMatchObject({ retryAt: clock.runtime.now() + pauseMs })
    clock.advance(pauseMs)
  }
  await guard.close()
})

test('opening twice opens the stores once and starts the background work once', async () => {
  const { clock, state, guard, port } = setUp()
  expect(clock.timers).toBe(0)
  await port.open()
  const { timers } = clock
  expect(timers).toBeGreaterThan(0)
  await port.open()
  expect(clock.timers).toBe(timers)
  expect(state.opened).toBe(1)
  await guard.close()
  expect(clock.timers).toBe(0)
})

test('a failed start rejects for its caller, and is an outage until the stores are open', async () => {
  const { state, port } = setUp()
  state.isDown = true
  await expect(port.open()).rejects.toBe(down)
  expect(port.availability()).toMatchObject({ kind: 'down', error: down })
  expect(port.outages()).toEqual([{ dependency: 'inbox', error: down }])
  state.isDown = false
  await port.open()
  expect(port.availability()).toEqual({ kind: 'available' })
  expect(port.outages()).toEqual([])
})

test('a closed guard starts no runs and no background work', async () => {
  const { clock, state, guard, port } = setUp()
  await guard.close()
  expect(await guard.processBatch([toDelivery({}), toDelivery({})])).toEqual([
    { kind: 'abandon', reason: 'closing', cause: 'draining' },
    { kind: 'abandon', reason: 'closing', cause: 'draining' },
  ])
  expect(state.opened).toBe(0)
  await port.open()
  expect(clock.timers).toBe(0)
})

test('a guard says that it closes before it has closed', async () => {
  const { guard, port } = setUp()
  expect(port.closing.aborted).toBe(false)
  const closed = guard.close()
  expect(port.closing.aborted).toBe(true)
  await closed
})

test('close waits for running handlers', async () => {
  const gate = Promise.withResolvers<void>()
  const began = Promise.withResolvers<void>()
  const { guard } = setUp(() => {
    began.resolve()
    return gate.promise
  })
  const running = guard.process(toDelivery({}))
  await began.promise
  let isClosed = false
  const closing = guard.close().then(() => {
    isClosed = true
  })
  await turn()
  expect(isClosed).toBe(false)
  gate.resolve()
  await closing
  expect(await running).toMatchObject({ by: 'processed' })
})

test('close waits for a dead letter that is being published', async () => {
  const { guard, port } = setUp(() => Promise.reject(new FatalError('no such customer')))
  const settlement = await guard.process(toDelivery({}))
  expect(settlement).toMatchObject({ kind: 'dead-letter', reason: 'fatal' })
  const confirmed = Promise.withResolvers<void>()
  const publishing = port.publishDeadLetter(settlement, () => confirmed.promise)
  await turn()
  let isClosed = false
  const closing = guard.close().then(() => {
    isClosed = true
  })
  await turn()
  expect(isClosed).toBe(false)
  confirmed.resolve()
  await closing
  expect(await publishing).toEqual({ kind: 'published' })
})

test('without an inbox a dead letter is published from memory, and no connections of an inbox are closed', async () => {
  const warned: unknown[] = []
  const logger = { ...silent, warn: (_: object, message: string) => void warned.push(message) }
  const guard = createGuard(
    { consumer: 'mailing', leases: memoryLeases(), onTakeover: 'retry', logger },
    () => Promise.reject(new FatalError('no such address')),
  )
  const settlement = await guard.process(toDelivery({}, { headers: { 'idempotency-key': 'a' } }))
  const letters: unknown[] = []
  const answer = await portOf(guard).publishDeadLetter(settlement, async (letter) => {
    letters.push(letter)
  })
  expect(answer).toEqual({ kind: 'published' })
  expect(letters).toMatchObject([{ consumer: 'mailing', key: 'a', reason: 'fatal' }])
  warned.length = 0
  await guard.close()
  expect(warned).toEqual([])
})

test('a publisher is used until it is unregistered', async () => {
  const { port, guard } = setUp()
  const unregister = port.registerPublisher(source, async () => undefined)
  expect(unregister).toBeTypeOf('function')
  unregister()
  await guard.close()
})

test('an empty call has no settlements', async () => {
  const { guard } = setUp()
  expect(await guard.processBatch([])).toEqual([])
  await guard.close()
})

test('a record contains the total time of a delivery', async () => {
  const { clock, guard, records } = setUp(() => clock.advance(40))
  await guard.process(toDelivery({}))
  expect(records).toMatchObject([{ consumer: 'billing', totalMs: 40, handlerMs: 40 }])
  await guard.close()
})

test('adapters get the settings with defaults applied', () => {
  const settingsOf = (port: GuardPort): object => port.settings
  const { port } = setUp(undefined, { concurrency: 3, transaction: 'batch', leaseMs: 20_000 })
  const defaults = {
    ...{ consumer: 'billing', deadlineMs: 60_000, dedupWindowMs: 1_296_000_000 },
    ...{ maxAttempts: 10, retryMaxMs: 300_000 },
  }
  expect(settingsOf(port)).toEqual({
    ...defaults,
    ...{ concurrency: 3, inHand: 3, transaction: 'batch', leaseMs: 20_000 },
    ...{ hasInbox: true, hasLeases: false, lanesAreUsers: false },
  })
  const leased = createGuard(
    {
      ...{ consumer: 'billing', leases: memoryLeases(), onTakeover: 'retry', logger: silent },
      orderingKey: () => 'lane',
    },
    () => undefined,
  )
  expect(settingsOf(portOf(leased))).toEqual({
    ...defaults,
    ...{ concurrency: 8, inHand: 8, transaction: 'each', leaseMs: 30_000 },
    ...{ hasInbox: false, hasLeases: true, lanesAreUsers: true },
  })
})

test('a run that has ended is no longer in memory', async () => {
  const { guard, port } = setUp()
  const ended = new WeakRef(port.run([toDelivery({})]))
  await ended.deref()
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  await expect
    .poll(() => {
      collectGarbage()
      return ended.deref()
    })
    .toBeUndefined()
  await guard.close()
})

test('without an inbox, a store that is down is the lease store', async () => {
  const leases = { ...memoryLeases(), claim: () => Promise.reject(down) }
  const guard = createGuard(
    { consumer: 'mailing', leases, onTakeover: 'retry', logger: silent },
    () => undefined,
  )
  expect(await guard.process(toDelivery(1))).toMatchObject({ reason: 'store-down' })
  expect(portOf(guard).outages()).toEqual([{ dependency: 'leases', error: down }])
  await guard.close()
})
