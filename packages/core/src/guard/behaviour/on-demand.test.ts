import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Clock } from '../../fixtures/clock.ts'
import { changedInbox, silent } from '../../fixtures/inbox.ts'
import { memoryInbox, memoryLeases, toDelivery } from '../../memory/index.ts'
import { FatalError, StoreUnavailableError } from '../../model/errors.ts'
import { portOf } from '../../model/guard-port.ts'
import type { Handler } from '../../options/options.ts'
import { createBatchGuard, createGuard } from '../guard.ts'

const down = new StoreUnavailableError('down')
type Run = Handler<unknown, undefined>

function setUp(handler: Run) {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const inbox = memoryInbox()
  const common = { consumer: 'billing', logger: silent, runtime, deadlineMs: 10_000 }
  const leased = { ...common, leases: memoryLeases(), onTakeover: 'retry' } as const
  const keyless = { ...common, inbox, onMissingKey: 'unguarded' } as const
  const guards = {
    'an inbox': createGuard({ ...common, inbox }, handler),
    'a batch': createBatchGuard({ ...common, inbox }, ([event], context) =>
      Promise.resolve(handler(event as never, context)).then(() => undefined),
    ),
    'leases alone': createGuard(leased, handler),
    'no key': createGuard(keyless, handler),
    'no key and leases': createGuard({ ...leased, onMissingKey: 'unguarded' }, handler),
  }
  return { clock, inbox, guards }
}

const KINDS = ['an inbox', 'a batch', 'leases alone', 'no key', 'no key and leases'] as const
const deliveryFor = (kind: (typeof KINDS)[number]) =>
  toDelivery({ a: 1 }, kind.startsWith('no key') ? { headers: {} } : {})

test.each(KINDS)('a handler of a call with a budget ends with it: %s', async (kind) => {
  const deadlines: number[] = []
  const aborted: boolean[] = []
  const { clock, guards } = setUp((_event, { deadlineAt, signal }) => {
    deadlines.push(deadlineAt.getTime() - clock.runtime.now())
    signal.addEventListener('abort', () => aborted.push(true))
    return new Promise(() => undefined)
  })
  const running = portOf(guards[kind]).run([deliveryFor(kind)], { budgetMs: 50 })
  const [settlement] = await clock.until(running)
  expect(settlement).toMatchObject({ kind: 'defer', reason: 'failed' })
  expect(deadlines).toEqual([50])
  expect(aborted).toEqual([true])
})

test.each(KINDS)('a longer budget, or none, leaves the deadline of the guard: %s', async (kind) => {
  const deadlines: number[] = []
  const { clock, guards } = setUp((_event, { deadlineAt }) => {
    deadlines.push(deadlineAt.getTime() - clock.runtime.now())
    return undefined
  })
  const port = portOf(guards[kind])
  await port.run([deliveryFor(kind)], { budgetMs: 60_000 })
  const other = { ...deliveryFor(kind), headers: { 'idempotency-key': 'other' } }
  await port.run([other])
  expect(deadlines).toEqual([10_000, 10_000])
})

test('background work on demand needs no timer, and runs a replayed event when a poll is due', async () => {
  const ran: unknown[] = []
  const { clock, inbox, guards } = setUp(({ payload }) => {
    ran.push(payload)
    if (ran.length === 1) throw new FatalError('no')
  })
  const guard = guards['an inbox']
  const port = portOf(guard)
  const doDue = port.onDemand()
  // Nothing is open yet.
  await doDue()
  await guard.process(toDelivery('first'))
  await doDue()
  const [letter] = inbox.deadLetters()
  expect(inbox.replay(letter!.ref)).toBe(true)
  clock.advance(499)
  await doDue()
  expect(ran).toEqual(['first'])
  clock.advance(1)
  await doDue()
  expect(ran).toEqual(['first', 'first'])
  expect(clock.timers).toBe(0)
  await guard.close()
})

test('background work on demand ends its runs with the budget, and starts nothing after a stop', async () => {
  let runs = 0
  const { clock, inbox, guards } = setUp(() => {
    runs += 1
    if (runs === 1) throw new FatalError('no')
    return new Promise(() => undefined)
  })
  const guard = guards['an inbox']
  const port = portOf(guard)
  const doDue = port.onDemand()
  await guard.process(toDelivery('first'))
  await doDue()
  expect(inbox.replay(inbox.deadLetters()[0]!.ref)).toBe(true)
  clock.advance(500)
  await doDue({ stop: AbortSignal.abort() })
  expect(runs).toBe(1)
  await clock.until(doDue({ budgetMs: 50 }))
  expect(runs).toBe(2)
  await guard.close()
})

test('a guard that runs its background work already stops the timers', async () => {
  const { clock, guards } = setUp(() => undefined)
  const guard = guards['an inbox']
  await guard.process(toDelivery('first'))
  expect(clock.timers).toBe(4)
  const doDue = portOf(guard).onDemand()
  expect(clock.timers).toBe(0)
  await doDue()
  await guard.process(toDelivery('second', { headers: { 'idempotency-key': 'second' } }))
  expect(clock.timers).toBe(0)
  await guard.close()
})

test('background work on demand asks nothing of a store that is down, until a run has found it again', async () => {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const asked: string[] = []
  let isDown = false
  const inbox = changedInbox(memoryInbox(), (session) => ({
    begin: (request) => (isDown ? Promise.reject(down) : session.begin(request)),
    due: (limit) => {
      asked.push('due')
      return session.due(limit)
    },
  }))
  const guard = createGuard(
    { consumer: 'billing', inbox, logger: silent, runtime },
    () => undefined,
  )
  const doDue = portOf(guard).onDemand()
  await guard.process(toDelivery(1))
  await doDue()
  isDown = true
  await guard.process(toDelivery(2))
  clock.advance(500)
  await doDue()
  expect(asked).toEqual([])
  isDown = false
  clock.advance(10_000)
  await guard.process(toDelivery(3))
  await doDue()
  expect(asked).toEqual(['due'])
  await guard.close()
})

test('background work on demand begins when the work that ran by timers has ended', async () => {
  const clock = new Clock()
  const runtime = { ...clock.runtime, random: () => 0.5 }
  const searches: PromiseWithResolvers<void>[] = []
  const inbox = changedInbox(memoryInbox(), (session) => ({
    due: async (limit) => {
      const search = Promise.withResolvers<void>()
      searches.push(search)
      await search.promise
      return session.due(limit)
    },
  }))
  const guard = createGuard(
    { consumer: 'billing', inbox, logger: silent, runtime },
    () => undefined,
  )
  await guard.process(toDelivery(1))
  clock.advance(500)
  expect(searches).toHaveLength(1)
  const doDue = portOf(guard).onDemand()
  await portOf(guard).run([])
  let isOver = false
  const doing = doDue().then(() => {
    isOver = true
  })
  await turn()
  expect(isOver).toBe(false)
  searches[0]?.resolve()
  await doing
  await guard.close()
})
