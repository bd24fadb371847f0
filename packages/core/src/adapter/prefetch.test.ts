import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Prefetch } from './prefetch.ts'

const repeated = (times: number, act: () => void): void => {
  for (let n = 0; n < times; n += 1) act()
}

/** After many messages and receives of the same length. */
function settled(
  options: ConstructorParameters<typeof Prefetch>[0],
  messageMs: number,
  receiveMs?: number,
) {
  const prefetch = new Prefetch(options)
  repeated(50, () => prefetch.note(messageMs))
  if (receiveMs !== undefined) repeated(50, () => prefetch.noteReceive(receiveMs))
  return prefetch
}

test('nothing is fetched ahead before a message has shown how long one takes', () => {
  const prefetch = new Prefetch({ slots: 8, mostAhead: 10 })
  prefetch.noteReceive(5)
  expect([prefetch.ahead, prefetch.capacity, prefetch.worthwhile]).toEqual([0, 8, 1])
})

test('without a word about receives, what can start within a second may be in hand', () => {
  expect(settled({ slots: 2, mostAhead: 10 }, 400).ahead).toBe(5)
  expect(settled({ slots: 2, mostAhead: 10 }, 4).ahead).toBe(10)
})

test.each([
  { slots: 16, messageMs: 4, receiveMs: 0, ahead: 8, worthwhile: 8 },
  { slots: 16, messageMs: 4, receiveMs: 1, ahead: 12, worthwhile: 8 },
  { slots: 16, messageMs: 4, receiveMs: 50, ahead: 16, worthwhile: 8 },
  { slots: 1, messageMs: 100, receiveMs: 10, ahead: 2, worthwhile: 1 },
  { slots: 8, messageMs: 10_000, receiveMs: 10, ahead: 0, worthwhile: 1 },
])(
  '$slots slots with messages of $messageMs ms and receives of $receiveMs ms need $ahead messages ahead',
  (each) => {
    const { slots, messageMs, receiveMs } = each
    const prefetch = settled({ slots, mostAhead: 16 }, messageMs, receiveMs)
    expect([prefetch.ahead, prefetch.worthwhile]).toEqual([each.ahead, each.worthwhile])
  },
)

test('the slots stay busy while a receive is under way, and the bound holds for every length', () => {
  const ms = fc.double({ min: 0, max: 100_000, noNaN: true })
  const slots = fc.integer({ min: 1, max: 200 })
  fc.assert(
    fc.property(slots, fc.nat(200), ms, ms, (slotCount, mostAhead, messageMs, receiveMs) => {
      const prefetch = settled({ slots: slotCount, mostAhead }, messageMs, receiveMs)
      const { ahead, worthwhile } = prefetch
      expect(Number.isInteger(ahead) && ahead >= 0 && ahead <= mostAhead).toBe(true)
      expect(worthwhile).toBeGreaterThanOrEqual(1)
      const spare = ahead - worthwhile
      const isBounded = ahead === mostAhead || ahead === Math.floor((1_000 * slotCount) / messageMs)
      // The tolerance is for receives that are too short for a fraction of a double.
      const neededMs = slotCount * receiveMs * 0.999 - 1e-9
      expect(spare * Math.max(messageMs, 0.01) >= neededMs || isBounded).toBe(true)
    }),
  )
})
