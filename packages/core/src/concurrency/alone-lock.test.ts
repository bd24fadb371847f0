import { expect, test } from 'vitest'
import { createAloneLock, processAloneLock } from './alone-lock.ts'

test('shared runs are concurrent, and an exclusive run waits for all of them', async () => {
  const lock = createAloneLock()
  const [one, two] = await Promise.all([lock.shared(), lock.shared()])
  let isAlone = false
  const alone = lock.exclusive().then((release) => {
    isAlone = true
    return release
  })
  one()
  await Promise.resolve()
  expect(isAlone).toBe(false)
  two()
  const release = await alone
  expect(isAlone).toBe(true)
  release()
})

test('the lock is fair: a shared run waits behind an earlier exclusive waiter', async () => {
  const lock = createAloneLock()
  const order: string[] = []
  const first = await lock.shared()
  const exclusive = lock.exclusive().then((release) => {
    order.push('exclusive')
    release()
  })
  const late = lock.shared().then((release) => {
    order.push('shared')
    release()
  })
  first()
  await Promise.all([exclusive, late])
  expect(order).toEqual(['exclusive', 'shared'])
})

test('a second release has no effect', async () => {
  const lock = createAloneLock()
  const one = await lock.shared()
  await lock.shared()
  one()
  one()
  let isAlone = false
  void lock.exclusive().then(() => {
    isAlone = true
  })
  await Promise.resolve()
  await Promise.resolve()
  expect(isAlone).toBe(false)
})

test('all guards of a process share one lock', () => {
  expect(processAloneLock()).toBe(processAloneLock())
})
