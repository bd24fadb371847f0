import { expect, test, vi } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import type { EventId, OwnerToken } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { Held } from '../model/lease-store.ts'
import { LateEnds } from './late-ends.ts'

const held = (name: string): Held => ({
  id: `id of ${name}` as EventId,
  ownerToken: name as OwnerToken,
})

/** Late ends of a store that the test switches off, on a clock that the test moves. */
function setUp() {
  const clock = new Clock()
  const told: string[] = []
  const store = { isAway: true }
  const late = new LateEnds(clock.runtime)
  const add = (name: string, text = name): void =>
    late.add(held(name), async () => {
      told.push(text)
      if (store.isAway) throw new StoreUnavailableError('away')
      late.told([held(name)])
    })
  const wait = async (ms: number): Promise<readonly string[]> => {
    clock.advance(ms)
    await new Promise((resolve) => setImmediate(resolve))
    return told.splice(0)
  }
  return { clock, store, late, add, wait }
}

test('an end is sent again until the store answers, at intervals that grow to 5 s', async () => {
  const { add, clock, store, wait } = setUp()
  add('a')
  expect(await wait(249)).toEqual([])
  expect(await wait(1)).toEqual(['a'])
  for (const pauseMs of [500, 1_000, 2_000, 4_000, 5_000, 5_000]) {
    expect(await wait(pauseMs - 1)).toEqual([])
    expect(await wait(1)).toEqual(['a'])
  }
  store.isAway = false
  expect(await wait(5_000)).toEqual(['a'])
  expect(clock.timers).toBe(0)
  // The next outage starts anew.
  add('b')
  expect(await wait(250)).toEqual(['b'])
})

test('the last end of a claim counts, and none once the store has answered', async () => {
  const { add, late, store, wait } = setUp()
  add('a', 'earlier')
  add('a', 'later')
  add('b')
  late.told([held('b')])
  store.isAway = false
  expect(await wait(250)).toEqual(['later'])
})

test('what is left of an event is told before its next claim, which fails if that fails', async () => {
  const { add, late, store, wait } = setUp()
  expect(late.tell([held('a')])).toBeUndefined()
  add('a')
  add('b')
  expect(late.tell([held('c')])).toBeUndefined()
  await expect(late.tell([held('c'), held('a')])).rejects.toThrow('away')
  expect(await wait(0)).toEqual(['a'])
  store.isAway = false
  await late.tell([held('a')])
  expect(await wait(0)).toEqual(['a'])
  expect(late.tell([held('a')])).toBeUndefined()
  expect(await wait(250)).toEqual(['b'])
})

test('closing sends what is left once more, and then there is no timer', async () => {
  const { add, clock, late, wait } = setUp()
  add('a')
  await late.close()
  expect(await wait(60_000)).toEqual(['a'])
  add('b')
  expect(clock.timers).toBe(0)
})

test('closing waits for an end that is being told, and for the others when one fails', async () => {
  const { clock, late, wait } = setUp()
  const answers: Array<() => void> = []
  late.add(held('a'), () => Promise.reject(new StoreUnavailableError('away')))
  late.add(held('b'), () => new Promise<void>((resolve) => void answers.push(resolve)))
  await wait(250)
  let isClosed = false
  const closing = late.close().then(() => {
    isClosed = true
  })
  // The timer tells once, and then `close` once more.
  for (const times of [1, 2]) {
    await wait(0)
    expect([answers.length, isClosed]).toEqual([times, false])
    answers[times - 1]?.()
  }
  await closing
  // One of them has still no answer, and nothing tells it any more.
  expect(clock.timers).toBe(0)
})

test('closing when nothing is left resolves, and what comes later starts no timer', async () => {
  const { add, clock, late } = setUp()
  await late.close()
  add('a')
  expect(clock.timers).toBe(0)
})

test('the pause before an end is told again does not keep the process alive', () => {
  const { runtime } = new Clock()
  const setTimer = vi.fn(runtime.setTimer)
  const late = new LateEnds({ ...runtime, setTimer })
  late.add(held('a'), () => Promise.resolve())
  expect(setTimer).toHaveBeenCalledWith(expect.any(Function), 250, { keepAlive: false })
})

test('of ten thousand claims the oldest is dropped', async () => {
  const { add, store, wait } = setUp()
  for (let n = 0; n <= 10_000; n += 1) add(`${n}`)
  store.isAway = false
  const told = await wait(250)
  expect(told).toHaveLength(10_000)
  expect(told[0]).toBe('1')
})

// Red when each close tells what is left: a process that drains twice ended while one of them was still under way.
test('closing twice tells what is left once, and both wait for it', async () => {
  const { late, wait } = setUp()
  const answers: Array<() => void> = []
  late.add(held('a'), () => new Promise<void>((resolve) => void answers.push(resolve)))
  let closed = 0
  const closings = [late.close(), late.close()].map((closing) =>
    closing.then(() => {
      closed += 1
    }),
  )
  await wait(0)
  expect([answers.length, closed]).toEqual([1, 0])
  answers[0]?.()
  await Promise.all(closings)
  expect(closed).toBe(2)
})
