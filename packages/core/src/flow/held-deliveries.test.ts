import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import { HeldDeliveries, type Hold } from './held-deliveries.ts'

const each = (name: string) => {
  const orderingKey = name.length > 1 ? name[0] : undefined
  return { name, delivery: toDelivery(name, { orderingKey }) }
}
type Each = ReturnType<typeof each>
const namesOf = (group: readonly Each[]) => group.map(({ name }) => name).join(' ')

function holding() {
  const clock = new Clock()
  const due: [string, Hold][] = []
  const held = new HeldDeliveries<Each>({
    runtime: clock.runtime,
    onDue: (group, hold) => void due.push([namesOf(group), hold]),
  })
  const hold = (name: string, afterMs: number, isOutage = false): void =>
    held.hold(each(name), clock.runtime.monotonic() + afterMs, isOutage)
  return { clock, due, held, hold, names: () => due.map(([name]) => name) }
}

test('a held delivery runs again at its time', () => {
  const { clock, due, held, hold } = holding()
  hold('a', 500)
  hold('b', 200, true)
  expect([held.size, held.waiting]).toEqual([2, 1])
  clock.advance(200)
  expect(due).toEqual([['b', { isOutage: true, isResumed: false }]])
  expect([held.size, held.waiting]).toEqual([1, 0])
  clock.advance(300)
  expect(due.at(-1)).toEqual(['a', { isOutage: false, isResumed: false }])
  expect([held.size, clock.timers]).toEqual([0, 0])
})

test('deliveries that wait for the store run again when it is back, and at most once a second', () => {
  const { clock, due, held, hold, names } = holding()
  for (const name of ['a', 'b']) hold(name, 60_000, name === 'a')
  clock.advance(400)
  for (let times = 0; times < 3; times += 1) held.resume()
  expect([held.waiting, clock.timers]).toEqual([1, 2])
  clock.advance(599)
  expect(due).toEqual([])
  clock.advance(1)
  expect(due).toEqual([['a', { isOutage: true, isResumed: true }]])
  hold('a', 60_000, true)
  clock.advance(2_000)
  held.resume()
  clock.advance(0)
  expect([names(), held.waiting]).toEqual([['a', 'a'], 0])
})

// Red before: the second came when the first had begun, in another call of the guard.
test('deliveries of an ordering key run again together, when the last of them has rested', () => {
  const { clock, held, hold, names } = holding()
  hold('a1', 60_000, true)
  hold('b1', 60_000, true)
  held.resume()
  clock.advance(300)
  hold('a2', 60_000, true)
  held.resume()
  clock.advance(700)
  expect(names()).toEqual(['b1'])
  clock.advance(300)
  expect([names(), held.size, clock.timers]).toEqual([['b1', 'a1 a2'], 0, 0])
})

test('those that have waited longest for the store are taken first, with all of their ordering key', () => {
  const { clock, held, hold } = holding()
  hold('x', 60_000)
  for (const name of ['a1', 'b1', 'a2']) hold(name, 60_000, true)
  expect(namesOf(held.takeLongest())).toBe('a1 a2')
  expect(namesOf(held.takeLongest())).toBe('b1')
  expect([held.takeLongest(), held.size, held.waiting, clock.timers]).toEqual([[], 1, 0, 1])
})

test('a delivery that was taken back does not run again', () => {
  const { clock, held, hold, names } = holding()
  for (const name of ['a1', 'a2', 'b1', 'c']) hold(name, 10_000, name !== 'c')
  held.resume()
  expect(namesOf(held.takeBack(({ name }) => name === 'a1' || name === 'b1'))).toBe('a1 b1')
  expect(clock.timers).toBe(2)
  clock.advance(1_000)
  expect(names()).toEqual(['a2'])
  expect(namesOf(held.takeBack())).toBe('c')
  expect([held.size, held.waiting, clock.timers, held.takeBack()]).toEqual([0, 0, 0, []])
})
