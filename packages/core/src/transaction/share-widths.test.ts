import { expect, test } from 'vitest'
import { Widths } from './share-widths.ts'

const SLOTS = 16
const FEW = 2

interface Settling {
  readonly events: number
  readonly inHand?: number
  readonly leastMs?: () => number
}

/** Settles events, each of which takes what its width costs, and answers the width of each. */
function settle(
  widths: Widths,
  costs: (width: number) => number,
  { events, inHand = SLOTS, leastMs = () => 0 }: Settling,
): number[] {
  return Array.from({ length: events }, () => {
    const width = widths.width(inHand)
    widths.settled({ width, tookMs: costs(width), inHand, leastMs })
    return width
  })
}
const fewBy = (ratio: number) => (width: number) => (width < SLOTS ? ratio : 1)
const share = (widths: readonly number[], of: number): number =>
  widths.filter((width) => width === of).length / widths.length

test.each([
  [3, 2],
  [16, 2],
  [24, 3],
  [64, 4],
  [1_000, 4],
])('of %d in hand, few are %d', (inHand, few) => {
  const widths = new Widths(SLOTS)
  settle(widths, fewBy(0.5), { events: 1_000 })
  expect(widths.width(inHand)).toBe(few)
})

test('is tried within a hundred events, and stays few where that is faster', () => {
  const widths = new Widths(SLOTS)
  expect(settle(widths, fewBy(0.5), { events: 100 })).toContain(FEW)
  settle(widths, fewBy(0.5), { events: 400 })
  expect(share(settle(widths, fewBy(0.5), { events: 20_000 }), FEW)).toBeGreaterThan(0.95)
})

test('stays wide where few are slower, and tries again ever more seldom', () => {
  const widths = new Widths(SLOTS)
  expect(share(settle(widths, fewBy(3), { events: 20_000 }), FEW)).toBeLessThan(0.02)
  expect(settle(widths, fewBy(3), { events: 20_000 })).toContain(FEW)
})

test('stays wide where it makes no difference', () => {
  const widths = new Widths(SLOTS)
  expect(share(settle(widths, fewBy(1), { events: 20_000 }), FEW)).toBeLessThan(0.04)
})

test('is not tried where few could not be as fast', () => {
  const widths = new Widths(SLOTS)
  const seen = settle(widths, fewBy(0.5), { events: 1_000, leastMs: () => 2 })
  expect(share(seen, SLOTS)).toBe(1)
})

test('is not judged by few events in hand', () => {
  const widths = new Widths(SLOTS)
  expect(share(settle(widths, fewBy(0.5), { events: 1_000, inHand: 4 }), SLOTS)).toBe(1)
})

test('is not decided by a moment in which the machine had other work', () => {
  const widths = new Widths(SLOTS)
  let count = 0
  // Each third block of the wide one is slow.
  const costs = (width: number): number =>
    width < SLOTS ? 1.5 : Math.floor(count++ / 64) % 3 === 0 ? 2 : 1
  expect(share(settle(widths, costs, { events: 40_000 }), FEW)).toBeLessThan(0.2)
})

test('turns when the world does', () => {
  const widths = new Widths(SLOTS)
  settle(widths, fewBy(0.5), { events: 4_000 })
  settle(widths, fewBy(3), { events: 4_000 })
  expect(share(settle(widths, fewBy(3), { events: 10_000 }), SLOTS)).toBeGreaterThan(0.95)
})

test('with no more slots than few, there is nothing to choose', () => {
  const widths = new Widths(2)
  expect(share(settle(widths, fewBy(0.5), { events: 1_000 }), 2)).toBe(1)
})
