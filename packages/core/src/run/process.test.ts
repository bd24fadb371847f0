import { describe, expect, test } from 'vitest'
import {
  down,
  eventIdIn,
  type Given,
  keyless,
  leased,
  named,
  type Session,
  setUp,
  storeDown,
} from '../fixtures/run.ts'
import type { Delivery } from '../model/delivery.ts'
import { FatalError, RetryableError } from '../model/errors.ts'
import type { LeaseStore } from '../model/lease-store.ts'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('an outcome that cannot be recorded', () => {
  test('is deferred when the store is down, and the breaker counts the failure', async () => {
    const { outcomes, breaker, logged } = await setUp({
      session: () => ({ refuse: () => Promise.reject(down) }),
    })
    expect(await outcomes([keyless()])).toEqual([storeDown(down)])
    expect(breaker.state()).toMatchObject({ error: down })
    expect(logged).toEqual([])
  })

  test('is deferred after any other error too, the log names the error, and other events continue', async () => {
    const bug = new Error('unforeseen')
    const { outcomes, breaker, logged } = await setUp({
      session: () => ({ refuse: () => Promise.reject(bug) }),
    })
    expect(await outcomes([keyless()])).toEqual([storeDown(bug)])
    expect(breaker.state()).toBeUndefined()
    expect(logged).toEqual([
      'a store call failed and its events are deferred: check the store: unforeseen',
    ])
  })
})

test('a refused message is reported with the key that was found', async () => {
  const { run, emitted } = await setUp({ given: { tenant: () => undefined } })
  await run([named('a')])
  expect(emitted).toMatchObject([[0, { kind: 'dead' }, { key: 'a' }]])
})

test('a processed event is reported with its key and the duration of its handler', async () => {
  for (const given of [{}, leased()]) {
    const kit = await setUp({
      given,
      handler: () => kit.clock.advance(40),
    })
    await kit.run([named('a')])
    const processed = { kind: 'processed', attempt: 1 }
    expect(kit.emitted).toMatchObject([[0, processed, { key: 'a', handlerMs: 40 }]])
  }
})

describe('messages without a key, by policy', () => {
  const unguarded: Given = { onMissingKey: 'unguarded' }
  const kits = [
    ['with an inbox', unguarded],
    ['without an inbox', leased(unguarded)],
  ] as const

  test.each(kits)('run side by side, %s', async (_, given) => {
    const kit = await setUp({
      given,
      handler: ({ payload }) => payload === 'keyless' && kit.clock.advance(40),
    })
    await kit.run([keyless(), named('a')])
    expect(kit.ran.toSorted()).toEqual(['a', 'keyless'])
    const byIndex = kit.emitted.toSorted(([a], [b]) => a - b)
    expect(byIndex).toMatchObject([
      [0, { kind: 'unguarded' }, { handlerMs: 40 }],
      [1, { kind: 'processed' }, { key: 'a' }],
    ])
  })

  test('are recorded before a dead-letter settlement, if there is an inbox', async () => {
    const error = new FatalError('no such customer')
    const handler = (): never => {
      throw error
    }
    const dead = { kind: 'dead', reason: 'fatal', attempt: 1, error }
    const ref = { kind: 'refused', id: expect.any(String) }
    const beside = await setUp({ given: unguarded, handler })
    expect(await beside.outcomes([keyless()])).toEqual([{ ...dead, ref }])
    const alone = await setUp({ given: leased(unguarded), handler })
    expect(await alone.outcomes([keyless()])).toEqual([dead])
  })

  test('are deferred if their dead letter cannot be recorded', async () => {
    const { outcomes } = await setUp({
      given: unguarded,
      session: () => ({ refuse: () => Promise.reject(down) }),
      handler: () => Promise.reject(new FatalError('no such customer')),
    })
    expect(await outcomes([keyless()])).toEqual([storeDown(down)])
  })

  test('are not dead-lettered or recorded after a retryable failure', async () => {
    let refusals = 0
    const refuse: Session['refuse'] = async () => {
      refusals += 1
      return []
    }
    const error = new RetryableError('later', { afterMs: 5 })
    const { outcomes } = await setUp({
      given: unguarded,
      session: () => ({ refuse }),
      handler: () => Promise.reject(error),
    })
    const failed = { kind: 'failed', attempt: 1, delayMs: 5, error, cause: 'handler-failed' }
    expect(await outcomes([keyless()])).toEqual([failed])
    expect(refusals).toBe(0)
  })
})

describe('an event that this process has in flight', () => {
  const lane = { orderingKey: 'lane' }

  test('is waited for together with its lane, and other lanes do not wait', async () => {
    const { run, flights, ran, emitted, context } = await setUp()
    const [flying, mate, free] = [named('a', 'a', lane), named('b', 'b', lane), named('c')]
    const land = flights.start(await eventIdIn(context, flying))
    const running = run([flying, mate, free])
    await expect.poll(() => emitted).toMatchObject([[2, { kind: 'processed' }, {}]])
    expect(ran).toEqual(['c'])
    land()
    await running
    expect(ran).toEqual(['c', 'a', 'b'])
    expect(emitted.map(([index, { kind }]) => [index, kind])).toEqual([
      [2, 'processed'],
      [0, 'processed'],
      [1, 'processed'],
    ])
  })

  test('does not split the other events, which share a transaction', async () => {
    const claimed: number[] = []
    const { run, flights, context } = await setUp({
      given: { transaction: 'batch' },
      session: (session) => ({
        begin: (request) => {
          if (request.claim.kind === 'fresh') claimed.push(request.claim.events.length)
          return session.begin(request)
        },
      }),
    })
    const land = flights.start(await eventIdIn(context, named('a')))
    const running = run([named('a'), named('b'), named('c')])
    await turn()
    land()
    await running
    expect(claimed).toEqual([2, 1])
  })

  test('is deferred with its lane if it runs too long, each time for longer', async () => {
    const { run, flights, ran, emitted, clock, context } = await setUp()
    const lanes = [named('a', 'a', lane), named('b', 'b', lane)]
    flights.start(await eventIdIn(context, lanes[0] as Delivery))
    for (const delayMs of [1_000, 2_000]) {
      const running = run(lanes)
      await expect.poll(() => clock.timers).toBeGreaterThan(0)
      clock.advance(250)
      await running
      const held = { kind: 'in-progress', delayMs }
      expect(emitted.splice(0)).toMatchObject([
        [0, held, { key: 'a' }],
        [1, held, { key: 'b' }],
      ])
    }
    expect(ran).toEqual([])
  })

  test('stops the wait of its lane at that event: earlier events run', async () => {
    const { run, flights, ran, emitted, clock, context } = await setUp()
    const lanes = [named('a', 'a', lane), named('b', 'b', lane), named('c', 'c', lane)]
    flights.start(await eventIdIn(context, lanes[1] as Delivery))
    const running = run(lanes)
    await expect.poll(() => clock.timers).toBeGreaterThan(0)
    clock.advance(250)
    await running
    expect(ran).toEqual(['a'])
    const kinds = emitted.toSorted(([a], [b]) => a - b).map(([, { kind }]) => kind)
    expect(kinds).toEqual(['processed', 'in-progress', 'in-progress'])
  })

  test('is deferred for a second if it runs too long, without an inbox', async () => {
    const { outcomes, flights, clock, context } = await setUp({ given: leased() })
    flights.start(await eventIdIn(context, named('a')))
    const running = outcomes([named('a')])
    await expect.poll(() => clock.timers).toBeGreaterThan(0)
    clock.advance(250)
    expect(await running).toEqual([
      { kind: 'in-progress', delayMs: 1_000, cause: 'in-flight-here' },
    ])
  })

  test('is in flight from before its run until its settlement', async () => {
    for (const given of [{}, leased()]) {
      const inHand: boolean[] = []
      const kit = await setUp({ given, handler: () => look() })
      const id = await eventIdIn(kit.context, named('a'))
      const look = (): void => void inHand.push(kit.flights.has(id))
      await kit.run([named('a')])
      look()
      expect(inHand).toEqual([true, false])
    }
  })
})

test('a lease store is not called when there is nothing to claim', async () => {
  let claims = 0
  const claim: LeaseStore['claim'] = async () => {
    claims += 1
    return []
  }
  const { outcomes } = await setUp({ given: leased({}, { claim }) })
  expect(await outcomes([keyless()])).toMatchObject([{ kind: 'dead' }])
  expect(claims).toBe(0)
})

// No code of the engine throws here today. If it ever does, no delivery may be lost.
describe('when a run fails unexpectedly', () => {
  const bug = new Error('unforeseen')

  /** The second request for a slot fails. */
  async function broken(handler: () => unknown) {
    const kit = await setUp({ handler })
    const { stores } = kit.context
    if (stores.engine === undefined) throw new Error('a guard with an inbox has an engine')
    let asked = 0
    const tryAcquire = () => {
      asked += 1
      if (asked === 2) throw bug
      return () => undefined
    }
    const slots = Object.assign(stores.engine.slots, { tryAcquire })
    const change = { stores: { ...stores, engine: { ...stores.engine, slots } } }
    return { ...kit, run: (deliveries: readonly Delivery[]) => kit.run(deliveries, change) }
  }

  test('its events are deferred, none stays in flight, and the log names the error', async () => {
    const { run, emitted, logged, flights, context } = await broken(() => undefined)
    const lanes = ['a', 'b', 'c'].map((key) => named(key, key, { orderingKey: 'lane' }))
    await run(lanes)
    expect(emitted.map(([index, { kind }]) => [index, kind])).toEqual([
      [0, 'processed'],
      [1, 'store-down'],
      [2, 'store-down'],
    ])
    expect(emitted[1]).toMatchObject([1, storeDown(bug), { key: 'b' }])
    expect(logged).toEqual([
      'a store call failed and its events are deferred: check the store: unforeseen',
    ])
    for (const delivery of lanes) {
      expect(flights.has(await eventIdIn(context, delivery))).toBe(false)
    }
  })

  test('an event that runs meanwhile has its own outcome', async () => {
    const gate = Promise.withResolvers<void>()
    const { run, emitted, logged } = await broken(() => gate.promise)
    const running = run([named('a'), named('b')])
    await turn()
    expect(emitted).toMatchObject([[1, storeDown(bug), {}]])
    gate.resolve()
    await running
    expect(emitted).toMatchObject([
      [1, storeDown(bug), {}],
      [0, { kind: 'processed' }, {}],
    ])
    expect(logged).toEqual([
      'a store call failed and its events are deferred: check the store: unforeseen',
    ])
  })
})
