import { expect, test } from 'vitest'
import { createAloneLock, processAloneLock } from './alone-lock.ts'

test('sharers run side by side, an exclusive run waits for all of them', async () => {
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

test('it is fair: a sharer that comes after an exclusive waiter waits behind it', async () => {
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

test('a release counts once', async () => {
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
