import { describe, expect, test } from 'vitest'
import { withConsumption } from '../../adapter/wrap.ts'
import { Clock } from '../../fixtures/clock.ts'
import { silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { ConfigurationError, FatalError, StoreUnavailableError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { Inbox } from '../../model/inbox.ts'
import type { LeaseStore } from '../../model/lease-store.ts'
import { createGuard } from '../guard.ts'

const down = {
  inbox: new StoreUnavailableError('the database is down'),
  leases: new StoreUnavailableError('Redis is down'),
  letters: new Error('the dead-letter queue is down'),
}
const source = { broker: 'test', queue: 'orders' }

/** A guard whose inbox, leases and dead-letter place the test can switch off, and the health of its consumer. */
function setUp() {
  const clock = new Clock()
  const isDown = { inbox: false, leases: false, letters: false }
  const memory = { inbox: memoryInbox(), leases: memoryLeases() }
  const inbox: Inbox<undefined> = {
    open: async (registration) => {
      const session = await memory.inbox.open(registration)
      const begin: typeof session.begin = session.begin.bind(session)
      return Object.assign(session, {
        begin: (request: Parameters<typeof begin>[0]) =>
          isDown.inbox ? Promise.reject(down.inbox) : begin(request),
      })
    },
  }
  const leases: LeaseStore = {
    ...memory.leases,
    claim: async (claims) => {
      if (isDown.leases) throw down.leases
      return memory.leases.claim(claims)
    },
  }
  const guard = createGuard(
    { ...{ consumer: 'billing', inbox, leases }, logger: silent, runtime: clock.runtime },
    async ({ payload }) => {
      if (payload === 'fatal') throw new FatalError('no such customer')
    },
  )
  const port = portOf(guard)
  const publish = async (): Promise<void> => {
    if (isDown.letters) throw down.letters
  }
  port.registerPublisher(source, publish)
  const state: { outage?: { state: 'recovering'; reason: string } } = {}
  const { consumption } = withConsumption({
    ...{ port, drainMs: 0, queue: 'orders', describe: (error) => (error as Error).message },
    createLoop: () => ({
      wrapped: {},
      dispatcher: { inFlight: 0, clear: () => undefined, ended: async () => undefined },
      settling: { settleFailures: 0 },
      finish: async () => undefined,
      get outage() {
        return state.outage
      },
    }),
  })
  const bury = async (messageId: string): Promise<void> => {
    const settlement = await guard.process(toDelivery('fatal', { messageId, source }))
    await port.publishDeadLetter(settlement, publish)
  }
  return { clock, isDown, guard, port, state, bury, health: () => consumption.health() }
}

test('health names each dependency that failed, also those that the consumer can work without', async () => {
  const { clock, isDown, guard, bury, health } = setUp()
  const run = (): Promise<unknown> => guard.process(toDelivery({}))
  await run()
  expect(health()).toEqual({ state: 'running', inFlight: 0, settleFailures: 0 })

  isDown.leases = true
  await run()
  const leases = { dependency: 'leases', reason: 'Redis is down' }
  expect(health()).toMatchObject({ state: 'running', outages: [leases] })

  isDown.letters = true
  await bury('a')
  const letters = { dependency: 'dead-letters', reason: 'the dead-letter queue is down' }
  expect(health()).toMatchObject({ state: 'running', outages: [leases, letters] })

  isDown.inbox = true
  await run()
  const inbox = { dependency: 'inbox', reason: 'the database is down' }
  expect(health()).toMatchObject({ state: 'paused', outages: [inbox, leases, letters] })

  Object.assign(isDown, { inbox: false, leases: false, letters: false })
  clock.advance(60_000)
  await bury('b')
  expect(health()).toEqual({ state: 'running', inFlight: 0, settleFailures: 0 })
  await guard.close()
})

test('health names the broker while it is down', async () => {
  const { guard, state, health } = setUp()
  state.outage = { state: 'recovering', reason: 'the connection is not there yet' }
  const outages = [{ dependency: 'broker', reason: 'the connection is not there yet' }]
  expect(health()).toMatchObject({ state: 'recovering', outages })
  await guard.close()
})

// Red before: what Redis had refused, such as a command that its ACL does not allow, was said of the database.
test.each([
  ['leases', new ConfigurationError('Redis refuses: NOPERM')],
  ['leases', down.leases],
  ['inbox', new ConfigurationError('permission denied for table processed_events')],
  ['inbox', down.inbox],
] as const)('a failed opening names the store that failed: %s', async (dependency, error) => {
  const clock = new Clock()
  const memory = { inbox: memoryInbox(), leases: memoryLeases() }
  let isDown = true
  const failing = async (name: typeof dependency): Promise<void> => {
    if (isDown && name === dependency) throw error
  }
  const inbox: Inbox<undefined> = {
    open: async (registration) => {
      await failing('inbox')
      return memory.inbox.open(registration)
    },
  }
  const leases: LeaseStore = {
    ...memory.leases,
    open: async () => {
      await failing('leases')
      return memory.leases
    },
  }
  const guard = createGuard(
    { ...{ consumer: 'billing', inbox, leases }, logger: silent, runtime: clock.runtime },
    () => undefined,
  )
  const port = portOf(guard)
  await expect(port.open()).rejects.toBe(error)
  expect(port.outages()).toEqual([{ dependency, error }])
  clock.advance(60_000)
  expect(await port.run([toDelivery({})])).toMatchObject([{ kind: 'defer' }])
  expect(port.outages()).toEqual([{ dependency, error }])
  isDown = false
  clock.advance(60_000)
  expect(await port.run([toDelivery({})])).toMatchObject([{ kind: 'ack' }])
  expect(port.outages()).toEqual([])
  await guard.close()
})

describe('without an inbox', () => {
  const setUpLeases = (onStoreDown: 'wait' | 'unguarded') => {
    const clock = new Clock()
    const memory = memoryLeases(clock.runtime)
    const isDown = { leases: true }
    const claim: LeaseStore['claim'] = async (claims) => {
      if (isDown.leases) throw down.leases
      return memory.claim(claims)
    }
    const guard = createGuard(
      {
        ...{ consumer: 'billing', onTakeover: 'retry' as const, onStoreDown },
        ...{ leases: { ...memory, claim }, logger: silent, runtime: clock.runtime },
      },
      () => undefined,
    )
    return { clock, isDown, guard, port: portOf(guard) }
  }

  // Red before: consumers went on to receive, and deferred what came.
  test('consumers pause while the lease store is down, and continue with its first answer', async () => {
    const { clock, isDown, guard, port } = setUpLeases('wait')
    const order = toDelivery({})
    expect(await guard.process(order)).toMatchObject({ kind: 'defer', reason: 'store-down' })
    expect(port.availability()).toMatchObject({ kind: 'down', error: down.leases })
    expect(port.outages()).toEqual([{ dependency: 'leases', error: down.leases }])
    expect(await guard.process(order)).toMatchObject({ kind: 'defer', cause: 'breaker-open' })

    clock.advance(60_000)
    expect(await guard.process(order)).toMatchObject({ kind: 'defer', cause: 'store-error' })
    isDown.leases = false
    clock.advance(60_000)
    expect(await guard.process(order)).toMatchObject({ kind: 'ack', by: 'processed' })
    expect(port.availability()).toEqual({ kind: 'available' })
    expect(port.outages()).toEqual([])
    await guard.close()
  })

  test('consumers do not pause where events run without the lease store', async () => {
    const { guard, port } = setUpLeases('unguarded')
    expect(await guard.process(toDelivery({}))).toMatchObject({ kind: 'ack' })
    expect(port.availability()).toEqual({ kind: 'available' })
    expect(port.outages()).toEqual([{ dependency: 'leases', error: down.leases }])
    await guard.close()
  })
})
