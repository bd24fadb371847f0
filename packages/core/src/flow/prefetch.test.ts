import fc from 'fast-check'
import { expect, test } from 'vitest'
import { PullPrefetch, PushPrefetch } from './prefetch.ts'

const repeated = (times: number, act: () => void): void => {
  for (let n = 0; n < times; n += 1) act()
}

/** After many messages and receives of the same length. */
function settled(
  options: ConstructorParameters<typeof PullPrefetch>[0],
  messageMs: number,
  receiveMs?: number,
) {
  const prefetch = new PullPrefetch(options)
  repeated(50, () => prefetch.note(messageMs))
  if (receiveMs !== undefined) repeated(50, () => prefetch.noteReceive(receiveMs))
  return prefetch
}

test('nothing is fetched ahead before a message has shown how long one takes', () => {
  const prefetch = new PullPrefetch({ slots: 8, mostAhead: 10 })
  prefetch.noteReceive(5)
  expect([prefetch.ahead, prefetch.capacity, prefetch.worthwhile]).toEqual([0, 8, 1])
})

test('without a word about receives, what can start within a second may be in hand', () => {
  const slow = settled({ slots: 2, mostAhead: 10 }, 400)
  expect([slow.ahead, slow.capacity, slow.worthwhile]).toEqual([5, 7, 5])
  expect(settled({ slots: 2, mostAhead: 10 }, 4).ahead).toBe(10)
})

test('one message of another length moves the average by a fifth', () => {
  const prefetch = settled({ slots: 2, mostAhead: 10 }, 400)
  prefetch.note(4)
  expect(prefetch.ahead).toBe(6)
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

const none = { waiting: 0, blocked: 0 }

test('a reserve comes with quick messages at once, and goes a second after they have become slow', () => {
  const reserve = new PushPrefetch({ slots: 4, size: 2, most: 12 })
  expect(reserve.prefetches(none, 0)).toEqual([4])
  reserve.note(99)
  expect(reserve.prefetches(none, 10)).toEqual([4, 2])
  // Between the borders it stays as it is.
  repeated(20, () => reserve.note(150))
  expect(reserve.prefetches(none, 5_000)).toEqual([4, 2])
  repeated(20, () => reserve.note(250))
  expect(reserve.prefetches(none, 5_999)).toEqual([4, 2])
  expect(reserve.prefetches(none, 6_000)).toEqual([4])
  repeated(4, () => reserve.note(150))
  expect(reserve.prefetches(none, 60_000)).toEqual([4])
  repeated(20, () => reserve.note(90))
  expect(reserve.prefetches(none, 60_000)).toEqual([4, 2])
})

test('messages that need no slot are made up for, up to the most that may be in hand', () => {
  const reserve = new PushPrefetch({ slots: 4, size: 2, most: 11 })
  const countOf = (waiting: number, blocked: number, nowMs: number): number =>
    reserve.prefetches({ waiting, blocked }, nowMs).length - 1
  expect([countOf(1, 0, 0), countOf(2, 0, 0), countOf(3, 0, 0), countOf(9, 0, 0)]).toEqual([
    1, 1, 2, 3,
  ])
  // Behind slow messages those that wait for their order would bring more of the same.
  expect([countOf(0, 9, 999), countOf(0, 9, 1_000)]).toEqual([3, 0])
  reserve.note(1)
  expect([countOf(0, 1, 2_000), countOf(1, 0, 2_000), countOf(0, 2, 2_000)]).toEqual([1, 1, 2])
})

test('messages of exactly the length of a border change nothing', () => {
  const reserve = new PushPrefetch({ slots: 4, size: 2, most: 12 })
  reserve.note(100)
  expect(reserve.prefetches(none, 0)).toEqual([4])
  const quick = new PushPrefetch({ slots: 4, size: 2, most: 12 })
  quick.note(50)
  expect(quick.prefetches(none, 0)).toEqual([4, 2])
  // The average is exactly the upper border.
  quick.note(800)
  expect(quick.prefetches(none, 5_000)).toEqual([4, 2])
})

test('a reserve that is still needed rests again', () => {
  const reserve = new PushPrefetch({ slots: 4, size: 2, most: 12 })
  const countAt = (waiting: number, nowMs: number): number =>
    reserve.prefetches({ waiting, blocked: 0 }, nowMs).length - 1
  expect([countAt(1, 0), countAt(1, 900)]).toEqual([1, 1])
  expect([countAt(0, 1_500), countAt(0, 1_900)]).toEqual([1, 0])
})
