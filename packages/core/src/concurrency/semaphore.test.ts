import { describe, expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { createSemaphore, type SlotWait, type Ticket } from './semaphore.ts'
import { stopSignals } from './stop-signals.ts'

test('slots are granted up to the limit, then in order of arrival', async () => {
  const semaphore = createSemaphore(2)
  const one = await semaphore.acquire()
  await semaphore.acquire()
  const order: number[] = []
  const waiting = [1, 2].map((n) =>
    semaphore.acquire().then((release) => {
      order.push(n)
      release?.()
    }),
  )
  one?.()
  await Promise.all(waiting)
  expect(order).toEqual([1, 2])
})

test('a slot that is released twice counts once', async () => {
  const semaphore = createSemaphore(1)
  const release = await semaphore.acquire()
  release?.()
  release?.()
  expect(semaphore.tryAcquire()).toBeTypeOf('function')
  expect(semaphore.tryAcquire()).toBeUndefined()
})

test('a stopped waiter holds no slot, and the slot goes to the next waiter', async () => {
  const semaphore = createSemaphore(1)
  const held = await semaphore.acquire()
  let stop: () => void = () => undefined
  const stopped = semaphore.acquire({
    stop: (onStop) => {
      stop = onStop
      return () => undefined
    },
  })
  const next = semaphore.acquire()
  // Two signals may stop it.
  stop()
  stop()
  expect(await stopped).toBeUndefined()
  held?.()
  expect(await next).toBeTypeOf('function')
})

test('a waiter that gets its slot unsubscribes and leaves no timer', async () => {
  const clock = new Clock()
  const semaphore = createSemaphore(1)
  const held = await semaphore.acquire()
  let subscribed = 0
  const stop = () => {
    subscribed += 1
    return () => {
      subscribed -= 1
    }
  }
  const waiting = semaphore.acquire({ stop, limit: { runtime: clock.runtime, ms: 5 } })
  expect([subscribed, clock.timers]).toEqual([1, 1])
  held?.()
  await waiting
  expect([subscribed, clock.timers]).toEqual([0, 0])
})

test('a wait ends at its limit, and the slot goes to the next waiter', async () => {
  const clock = new Clock()
  const semaphore = createSemaphore(1)
  const held = await semaphore.acquire()
  const late = semaphore.acquire({ limit: { runtime: clock.runtime, ms: 5 } })
  const next = semaphore.acquire()
  clock.advance(5)
  expect(await late).toBeUndefined()
  held?.()
  expect(await next).toBeTypeOf('function')
})

test('waiters marked as first come before all others, in order of arrival', async () => {
  const semaphore = createSemaphore(1)
  const held = await semaphore.acquire()
  const order: string[] = []
  const wait = async (name: string, options: SlotWait): Promise<void> => {
    const release = await semaphore.acquire(options)
    order.push(name)
    release?.()
  }
  const waiting = [wait('a', {}), wait('b', { first: true }), wait('c', { first: true })]
  held?.()
  await Promise.all(waiting)
  expect(order).toEqual(['b', 'c', 'a'])
})

test('waiting for a slot takes as long per waiter, however many wait', async () => {
  const stop = new AbortController()
  const { whenStopping } = stopSignals([stop.signal])
  /** Processor time of this process: waiting for a busy machine is not work. */
  const workPerWaiter = async (waiters: number): Promise<number> => {
    const semaphore = createSemaphore(1)
    const before = process.cpuUsage()
    const done = Array.from({ length: waiters }, async () =>
      (await semaphore.acquire({ stop: whenStopping }))?.(),
    )
    await Promise.all(done)
    const { system, user } = process.cpuUsage(before)
    return (system + user) / waiters
  }
  await workPerWaiter(20_000)
  const ratios: number[] = []
  for (let turn = 0; turn < 3; turn += 1) {
    const few = await workPerWaiter(2_000)
    ratios.push((await workPerWaiter(40_000)) / few)
  }
  // Twenty where each waiter looks at all others.
  expect(Math.min(...ratios)).toBeLessThan(8)
})

describe('a waiter with a ticket', () => {
  const waiting = async (stop?: SlotWait['stop']) => {
    const semaphore = createSemaphore(1)
    const held = await semaphore.acquire()
    const ticket: Ticket = {}
    const granted = semaphore.acquire({ ticket, stop })
    const later = semaphore.acquire()
    return { semaphore, held, ticket, granted, later }
  }

  test('gets the slot of another holder out of the line', async () => {
    const { granted, held, later, semaphore, ticket } = await waiting()
    expect(semaphore.nextTicket()).toBe(ticket)
    ticket.turn?.step()
    expect(semaphore.nextTicket()).toBeUndefined()
    const slot = () => held?.()
    ticket.turn?.pass(slot)
    expect(await granted).toBe(slot)
    expect(ticket.turn).toBeUndefined()
    slot()
    expect(await later).toBeTypeOf('function')
    expect(semaphore.waiting).toBe(0)
  })

  test('comes first when it goes back, or has the slot that is free meanwhile', async () => {
    const { granted, held, later, ticket } = await waiting()
    ticket.turn?.step()
    ticket.turn?.goBack()
    held?.()
    const slot = await granted
    ticket.turn?.step()
    slot?.()
    expect(await later).toBeTypeOf('function')

    const alone = createSemaphore(1)
    const only = await alone.acquire()
    const second: Ticket = {}
    const free = alone.acquire({ ticket: second })
    second.turn?.step()
    only?.()
    second.turn?.goBack()
    expect(await free).toBeTypeOf('function')
    expect(alone.tryAcquire()).toBeUndefined()
  })

  test('has no turn any more once its wait was stopped out of the line', async () => {
    let stop: () => void = () => undefined
    const { granted, held, later, ticket } = await waiting((onStop) => {
      stop = onStop
      return () => undefined
    })
    ticket.turn?.step()
    stop()
    expect(await granted).toBeUndefined()
    expect(ticket.turn).toBeUndefined()
    held?.()
    expect(await later).toBeTypeOf('function')
  })
})
