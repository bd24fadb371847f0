import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { silent } from '../../fixtures/inbox.ts'
import { ConfigurationError, createBatchGuard, createGuard } from '../../index.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { portOf } from '../../model/guard-port.ts'

interface Order {
  readonly n: number
  readonly tenant?: string | undefined
}

const delivery = (order: Order, lane?: string) =>
  toDelivery(order, { headers: { 'idempotency-key': `e-${order.n}` }, orderingKey: lane })
const by = ({ payload }: { readonly payload: unknown }) => (payload as Order).tenant
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const events = fc.array(
  fc.record({
    tenant: fc.constantFrom('a', 'a', 'a', 'b', 'c', undefined),
    lane: fc.constantFrom('x', 'y', undefined, undefined),
    turns: fc.nat(3),
  }),
  { minLength: 1, maxLength: 30 },
)
const settings = fc.record({
  concurrency: fc.integer({ min: 1, max: 6 }),
  max: fc.integer({ min: 1, max: 3 }),
  hasInbox: fc.boolean(),
  calls: fc.integer({ min: 1, max: 4 }),
  events,
})

// Red without the gate, and if a lane were cut where a group is full.
test('with any settings no group runs more than its share, lanes keep their order, and everything runs once', async () => {
  const property = fc.asyncProperty(
    settings,
    async ({ calls, concurrency, events, hasInbox, max }) => {
      const running = new Map<string, number>()
      const lanes = new Map<string, number[]>()
      const open = new Set<string>()
      const ran: number[] = []
      let atOnce = 0
      const store = hasInbox
        ? { inbox: memoryInbox() }
        : { leases: memoryLeases(), onTakeover: 'retry' as const }
      const common = { consumer: 'orders', logger: silent, concurrency }
      const guard = createGuard(
        { ...common, ...store, groupConcurrency: { by, max } },
        async (event) => {
          const { n, tenant } = event.payload as Order
          const { lane, turns } = events[n] as (typeof events)[number]
          const count = (running.get(tenant ?? '') ?? 0) + 1
          running.set(tenant ?? '', count)
          atOnce += 1
          ran.push(n)
          if (tenant !== undefined) expect(count).toBeLessThanOrEqual(max)
          expect(atOnce).toBeLessThanOrEqual(concurrency)
          if (lane !== undefined) {
            expect(open.has(lane)).toBe(false)
            open.add(lane)
            lanes.set(lane, [...(lanes.get(lane) ?? []), n])
          }
          for (let turn = 0; turn < turns; turn += 1) await nextTurn()
          if (lane !== undefined) open.delete(lane)
          running.set(tenant ?? '', (running.get(tenant ?? '') ?? 0) - 1)
          atOnce -= 1
        },
      )
      const all = events.map(({ lane, tenant }, n) => delivery({ n, tenant }, lane))
      // A lane is in one call, as adapters hand it over.
      const parts = Array.from({ length: calls }, (_, call) =>
        all.filter((one, n) => (one.orderingKey === undefined ? n % calls : 0) === call),
      )
      const outcomes = await Promise.all(parts.map((part) => guard.processBatch(part)))
      expect(outcomes.flat().map(({ kind }) => kind)).toEqual(all.map(() => 'ack'))
      expect(ran.toSorted((one, other) => one - other)).toEqual(all.map((_, n) => n))
      for (const order of lanes.values()) expect(order).toEqual(order.toSorted((a, b) => a - b))
      await guard.close()
    },
  )
  await fc.assert(property, { numRuns: 60 })
})

test('a flood of one group does not hold up an event of another', async () => {
  const finished: string[] = []
  const gate = Promise.withResolvers<void>()
  const guard = createGuard(
    {
      consumer: 'orders',
      inbox: memoryInbox(),
      logger: silent,
      concurrency: 4,
      groupConcurrency: { by, max: 2 },
    },
    async ({ payload }) => {
      const { tenant } = payload as Order
      if (tenant === 'flood') await gate.promise
      finished.push(String(tenant))
    },
  )
  onTestFinished(() => guard.close())
  const flood = guard.processBatch(
    Array.from({ length: 40 }, (_, n) => delivery({ n, tenant: 'flood' })),
  )
  await guard.process(delivery({ n: 100, tenant: 'small' }))
  await guard.process(delivery({ n: 101 }))
  expect(finished).toEqual(['small', 'undefined'])
  gate.resolve()
  expect(new Set((await flood).map(({ kind }) => kind))).toEqual(new Set(['ack']))
})

test('a pause ends the wait for a group, and nothing of it is counted', async () => {
  const gate = Promise.withResolvers<void>()
  const attempts: number[] = []
  const guard = createGuard(
    { consumer: 'orders', inbox: memoryInbox(), logger: silent, groupConcurrency: { by, max: 1 } },
    async ({ attempt }) => {
      attempts.push(attempt)
      await gate.promise
    },
  )
  onTestFinished(() => guard.close())
  const batch = [1, 2, 3].map((n) => delivery({ n, tenant: 'a' }))
  const outcomes = guard.processBatch(batch)
  while (attempts.length === 0) await nextTurn()
  portOf(guard).pause({ source: 'operator' })
  gate.resolve()
  const causes = (await outcomes).map((each) => (each.kind === 'defer' ? each.cause : each.kind))
  expect(causes).toEqual(['ack', 'paused', 'paused'])
  portOf(guard).resume()
  expect((await guard.processBatch(batch)).map(({ kind }) => kind)).toEqual(['ack', 'ack', 'ack'])
  expect(attempts).toEqual([1, 1, 1])
})

test('events whose group cannot be told are bounded together, and reported once', async () => {
  const errors: unknown[] = []
  const logger = { ...silent, error: (_: object, text: string) => void errors.push(text) }
  let running = 0
  const guard = createGuard(
    {
      ...{ consumer: 'orders', inbox: memoryInbox(), logger },
      groupConcurrency: {
        by: () => {
          throw new Error('no tenant')
        },
        max: 1,
      },
    },
    async () => {
      running += 1
      expect(running).toBe(1)
      await nextTurn()
      running -= 1
    },
  )
  onTestFinished(() => guard.close())
  const outcomes = await guard.processBatch([1, 2, 3].map((n) => delivery({ n })))
  expect(outcomes.map(({ kind }) => kind)).toEqual(['ack', 'ack', 'ack'])
  expect(errors).toEqual([expect.stringContaining('groupConcurrency.by threw')])
})

test('shared transactions and wrong settings refuse it', () => {
  const inbox = memoryInbox()
  const groupConcurrency = { by, max: 2 }
  const make = (options: object) => () =>
    createGuard(
      { consumer: 'orders', inbox, groupConcurrency, ...options } as never,
      () => undefined,
    )
  expect(make({ transaction: 'batch' })).toThrow(/groupConcurrency.*beside shared transactions/)
  expect(() =>
    createBatchGuard({ consumer: 'orders', inbox, groupConcurrency } as never, () => undefined),
  ).toThrow(ConfigurationError)
  for (const wrong of [
    { by, max: 0 },
    { max: 2 },
    { by: 'tenant', max: 2 },
    { by, max: 2, per: 1 },
  ]) {
    expect(make({ groupConcurrency: wrong })).toThrow(/Expected `groupConcurrency` to be/)
  }
})
