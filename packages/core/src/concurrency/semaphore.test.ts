import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { createSemaphore, type SlotWait } from './semaphore.ts'

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
