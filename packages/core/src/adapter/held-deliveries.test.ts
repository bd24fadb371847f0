import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { HeldDeliveries } from './held-deliveries.ts'

function holding() {
  const clock = new Clock()
  const due: [string, boolean][] = []
  const held = new HeldDeliveries<string>({
    runtime: clock.runtime,
    onDue: (each, { isOutage }) => void due.push([each, isOutage]),
  })
  const until = (afterMs: number): number => clock.runtime.monotonic() + afterMs
  return { clock, due, held, until }
}

test('a held delivery runs again at its time', () => {
  const { clock, due, held, until } = holding()
  held.hold('a', until(500), { isOutage: false })
  held.hold('b', until(200), { isOutage: true })
  expect([held.size, held.deferred]).toEqual([2, 1])
  clock.advance(200)
  expect([due, held.size]).toEqual([[['b', true]], 1])
  clock.advance(300)
  expect([due.at(-1), held.size]).toEqual([['a', false], 0])
})

test('deliveries that wait for the store run again when it is back, and at most once a second', () => {
  const { clock, due, held, until } = holding()
  for (const each of ['a', 'b']) held.hold(each, until(60_000), { isOutage: each === 'a' })
  clock.advance(400)
  held.resume()
  clock.advance(599)
  expect(due).toEqual([])
  clock.advance(1)
  expect(due).toEqual([['a', true]])
  held.hold('a', until(60_000), { isOutage: true })
  clock.advance(2_000)
  held.resume()
  clock.advance(0)
  expect(due).toHaveLength(2)
})

test('a delivery that was taken back does not run again', () => {
  const { clock, due, held, until } = holding()
  for (const each of ['a', 'b', 'c']) held.hold(each, until(100), { isOutage: false })
  expect(held.takeBack((each) => each === 'b')).toEqual(['b'])
  expect(held.takeBack()).toEqual(['a', 'c'])
  clock.advance(1_000)
  expect([due, held.size, held.takeBack()]).toEqual([[], 0, []])
})
