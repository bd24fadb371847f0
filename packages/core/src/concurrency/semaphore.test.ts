import { expect, test } from 'vitest'
import { createSemaphore } from './semaphore.ts'

const never = () => () => undefined

test('grants as many as there are slots, then in order of arrival', async () => {
  const semaphore = createSemaphore(2)
  const one = await semaphore.acquire(never)
  await semaphore.acquire(never)
  const order: number[] = []
  const waiting = [1, 2].map((n) =>
    semaphore.acquire(never).then((release) => {
      order.push(n)
      release?.()
    }),
  )
  one?.()
  one?.()
  await Promise.all(waiting)
  expect(order).toEqual([1, 2])
})

test('a waiter that is told to stop holds nothing, and the slot goes to the next', async () => {
  const semaphore = createSemaphore(1)
  const held = await semaphore.acquire(never)
  let stop: () => void = () => undefined
  const stopped = semaphore.acquire((onStop) => {
    stop = onStop
    return () => undefined
  })
  const next = semaphore.acquire(never)
  stop()
  expect(await stopped).toBeUndefined()
  held?.()
  expect(await next).toBeTypeOf('function')
})
