import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { createShift } from '../../fixtures/shift.ts'
import { memoryInbox, toDelivery } from '../../memory/index.ts'
import type { Delivery, GuardEvent } from '../../model/delivery.ts'
import { portOf } from '../../model/guard-port.ts'
import type { BeginRequest } from '../../model/inbox.ts'
import type { SharePlan } from '../../model/runtime.ts'
import type { Settlement } from '../../model/settlement.ts'
import type { HandlerContext, OutcomeRecord } from '../../options/options.ts'
import { createGuard } from '../guard.ts'

type Run = (event: GuardEvent<unknown>, context: HandlerContext<undefined>) => unknown
interface Given {
  readonly plan?: SharePlan
  readonly transaction?: 'auto' | 'each'
  readonly retry?: { readonly attempts: number }
}

const SHARED: SharePlan = { size: 100, width: 1 }

/** A guard whose transactions are written down: the keys that each one claims. */
function setUp(handler: Run = () => undefined, given: Given = {}) {
  const { plan = SHARED, transaction = 'auto', ...more } = given
  const shift = createShift()
  const begun: (readonly unknown[])[] = []
  const requests: Partial<BeginRequest>[] = []
  const records: OutcomeRecord[] = []
  const inbox = changedInbox(memoryInbox(), (session) => ({
    begin: (request) => {
      const { claim } = request
      const events = claim.kind === 'none' ? [] : claim.events
      begun.push(events.map((each) => ('event' in each ? each.event.key : each.key)))
      requests.push(request)
      return session.begin(request)
    },
  }))
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox, logger: silent, transaction, ...more },
      runtime: { ...shift.runtime, sharePlan: () => plan },
      observe: (record) => void records.push(record),
    },
    async (event: GuardEvent<unknown>, context) => {
      // As a statement would, so that the others come meanwhile.
      await turn()
      await handler(event, context)
    },
  )
  return { begun, guard, records, requests, shift }
}

const delivery = (key: string, more: Partial<Delivery> = {}): Delivery => ({
  ...toDelivery({ key }, { messageId: key }),
  ...more,
})
const keys = (count: number): readonly string[] => Array.from({ length: count }, (_, n) => `e${n}`)
const by = (settlement: Settlement): string =>
  settlement.kind === 'ack' ? settlement.by : `${settlement.kind}`

test('events of different calls that are in hand at one moment share a transaction', async () => {
  const { begun, guard, records } = setUp()
  const settlements = await Promise.all(keys(9).map((key) => guard.process(delivery(key))))
  expect(settlements.map(by)).toEqual(keys(9).map(() => 'processed'))
  // The first one finds nothing in hand.
  expect(begun.map((claimed) => claimed.length)).toEqual([1, 8])
  const told = records.flatMap(({ transactionEvents = [] }) => transactionEvents)
  expect(told).toEqual([1, 8])
  expect(portOf(guard).sharePlan?.()).toEqual(SHARED)
  expect((await guard.process(delivery('e5'))).kind).toBe('ack')
  await guard.close()
})

test('events of one call share transactions of a fair size', async () => {
  const { begun, guard } = setUp(undefined, { plan: { size: 100, width: 4 } })
  await guard.processBatch(keys(40).map((key) => delivery(key)))
  for (const claimed of begun) expect(claimed.length).toBeLessThanOrEqual(10)
  expect(begun.length).toBeLessThan(20)
  await guard.close()
})

test('one event in hand is run exactly as with `each`', async () => {
  const requests: unknown[] = []
  for (const transaction of ['each', 'auto'] as const) {
    const context = setUp(undefined, { transaction })
    for (const key of keys(4)) await context.guard.process(delivery(key))
    requests.push(
      context.requests.map(({ claim, waitMs, likelyDone }) => ({ claim, waitMs, likelyDone })),
    )
    await context.guard.close()
  }
  expect(requests[1]).toEqual(requests[0])
})

test('events of one lane do not share, and keep their order', async () => {
  const ran: unknown[] = []
  const { begun, guard } = setUp(({ key }) => ran.push(key))
  const lanes = ['a', 'b', 'a', 'b', 'a']
  await guard.processBatch(lanes.map((orderingKey, n) => delivery(`e${n}`, { orderingKey })))
  for (const claimed of begun) {
    const of = claimed.map((key) => lanes[Number(String(key).slice(1))])
    expect(new Set(of).size).toBe(of.length)
  }
  const inLane = (lane: string) => ran.filter((key) => lanes[Number(String(key).slice(1))] === lane)
  expect([inLane('a'), inLane('b')]).toEqual([
    ['e0', 'e2', 'e4'],
    ['e1', 'e3'],
  ])
  await guard.close()
})

test('a failing event fails alone, after one try with its neighbours, which share the next transaction', async () => {
  const ran: string[] = []
  const { begun, guard, records } = setUp(({ key }) => {
    ran.push(key)
    if (key === 'e3') throw new Error('bad one')
  })
  const settlements = await Promise.all(keys(8).map((key) => guard.process(delivery(key))))
  const expected = keys(8).map((key) => (key === 'e3' ? 'defer' : 'processed'))
  expect(settlements.map(by)).toEqual(expected)
  expect(records.map(({ attempt }) => attempt)).toEqual(keys(8).map(() => 1))
  expect(ran.filter((key) => key === 'e3')).toHaveLength(2)
  expect(begun.map((claimed) => claimed.length)).toEqual([1, 7, 1, 6])
  await guard.close()
})

test('events that may have been begun before have nobody in their transaction', async () => {
  const { begun, guard } = setUp()
  const redelivered = (key: string): Delivery => delivery(key, { redelivered: true })
  await Promise.all([
    guard.process(delivery('e0')),
    ...['s1', 's2'].map((key) => guard.process(redelivered(key))),
  ])
  expect(begun.filter((claimed) => claimed.includes('s1') || claimed.includes('s2'))).toEqual([
    ['s1'],
    ['s2'],
  ])
  await guard.close()
})

test('an event that hangs holds its neighbours for a second', async () => {
  const hanging = Promise.withResolvers<void>()
  let isHanging = true
  const { guard, shift } = setUp(({ key }) =>
    key === 'e1' && isHanging ? hanging.promise : undefined,
  )
  const startedAtMs = shift.runtime.monotonic()
  const settled = keys(4).map((key) => guard.process(delivery(key)))
  const neighbours = await Promise.all([settled[0], settled[2], settled[3]])
  expect(neighbours.map((each) => each && by(each))).toEqual([
    'processed',
    'processed',
    'processed',
  ])
  expect(shift.runtime.monotonic() - startedAtMs).toBeLessThan(10_000)
  isHanging = false
  hanging.resolve()
  expect(by(await (settled[1] as Promise<Settlement>))).toBe('processed')
  await guard.close()
})

test('a handler that processes events of its own guard does not wait for itself', async () => {
  const inner: Promise<Settlement>[] = []
  const { guard } = setUp(async ({ key }) => {
    if (key.startsWith('inner')) return
    const nested = guard.process(delivery(`inner-${key}`))
    inner.push(nested)
    await nested
  })
  await Promise.all(keys(3).map((key) => guard.process(delivery(key))))
  for (const settlement of await Promise.all(inner)) expect(by(settlement)).toBe('processed')
  await guard.close()
})

test('what waits for a transaction goes back at once when the guard closes', async () => {
  const running = Promise.withResolvers<void>()
  const { begun, guard } = setUp(() => running.promise)
  const settled = keys(5).map((key) => guard.process(delivery(key)))
  while (begun.length === 0) await turn()
  const closing = guard.close()
  const waiting = await Promise.all(settled.slice(1))
  expect(waiting).toMatchObject(waiting.map(() => ({ kind: 'abandon', reason: 'closing' })))
  running.resolve()
  expect(by(await (settled[0] as Promise<Settlement>))).toBe('processed')
  await closing
})

test('learns within a hundred events that quick handlers share, and stops when one fails', async () => {
  let isFailing = false
  const shift = createShift()
  const sizes: number[] = []
  const inbox = changedInbox(memoryInbox(), (session) => ({
    begin: async (request) => {
      sizes.push(request.claim.kind === 'fresh' ? request.claim.events.length : 1)
      // The way to the server, which is longer than the handlers are.
      await turn()
      await turn()
      return session.begin(request)
    },
  }))
  const guard = createGuard(
    {
      ...{ consumer: 'billing', inbox, logger: silent, runtime: shift.runtime },
      ...{ transaction: 'auto', concurrency: 2 },
    },
    () => {
      if (isFailing) throw new Error('down')
    },
  )
  const play = (from: number, count: number): Promise<readonly Settlement[]> =>
    Promise.all(Array.from({ length: count }, (_, n) => guard.process(delivery(`k${from + n}`))))
  for (let from = 0; from < 100; from += 20) await play(from, 20)
  sizes.length = 0
  await play(100, 20)
  expect(Math.max(...sizes)).toBeGreaterThan(1)
  isFailing = true
  await play(120, 20)
  isFailing = false
  sizes.length = 0
  await play(140, 20)
  expect(sizes).toEqual(sizes.map(() => 1))
  for (let from = 160; from < 360; from += 20) await play(from, 20)
  shift.forward(60_000)
  await play(360, 20)
  expect(Math.max(...sizes)).toBeGreaterThan(1)
  await guard.close()
})

test('where two events fail beside each other, their neighbours run alone', async () => {
  const { begun, guard } = setUp(({ key }) => {
    if (key === 'e3' || key === 'e5') throw new Error('bad one')
  })
  const settlements = await Promise.all(keys(8).map((key) => guard.process(delivery(key))))
  const expected = keys(8).map((key) => (key === 'e3' || key === 'e5' ? 'defer' : 'processed'))
  expect(settlements.map(by)).toEqual(expected)
  expect(begun.map((claimed) => claimed.length)).toEqual([1, 7, 1, 6, 1, 1, 1, 1, 1, 1])
  await guard.close()
})
