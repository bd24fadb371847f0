import { expect, test } from 'vitest'
import { RecordInHand } from './clients/record-in-hand.ts'
import { message } from './fixtures/fetch.ts'
import { Progress } from './offsets.ts'

const itemsOf = (keys: readonly (string | null)[], first = 40): readonly RecordInHand[] =>
  keys.map((key, index) => {
    const record = { topic: 'orders', partition: 0, message: message(first + index, key) }
    return new RecordInHand(record, undefined)
  })

const progressOf = (keys: readonly (string | null)[], sharedLane?: string): Progress =>
  new Progress(itemsOf(keys), ({ lane }) => sharedLane ?? lane)

const indexOf = ({ record }: RecordInHand): number => Number(record.message.offset) - 40
const indexes = (items: readonly RecordInHand[]): readonly number[] => items.map(indexOf)
const lowOf = ({ lowest }: Progress): string | undefined => lowest?.record.message.offset

// Red when the watermark is the highest settled offset: the record that still runs would be passed.
test('the watermark never passes an unsettled record', () => {
  const progress = progressOf(['a', 'b', 'c', 'd'])
  const [a, b, c, d] = progress.take(0, 10) as RecordInHand[]
  progress.settle(d as RecordInHand)
  progress.settle(b as RecordInHand)
  expect(lowOf(progress)).toBe('40')
  progress.settle(a as RecordInHand)
  expect(lowOf(progress)).toBe('42')
  progress.settle(c as RecordInHand)
  expect([lowOf(progress), progress.isComplete]).toEqual([undefined, true])
})

test('records of one lane go into one call or into consecutive ones, and other lanes run meanwhile', () => {
  const progress = progressOf(['a', 'b', 'a', null, 'b'])
  const first = progress.take(0, 2)
  expect(indexes(first)).toEqual([0, 1])
  expect(indexes(progress.take(0, 10))).toEqual([3])
  progress.settle(first[0] as RecordInHand)
  expect(indexes(progress.take(0, 10))).toEqual([2])
  const all = progressOf(['a', null, 'b', 'a', null]).take(0, 10)
  expect(indexes(all)).toEqual([0, 1, 2, 3, 4])
  expect(progress.byLane(all).map(indexes)).toEqual([[0, 3], [1], [2], [4]])
})

// Red when the first end frees the lane: a third record would overtake the second.
test('a lane is busy until the last record of its call has ended', () => {
  const progress = progressOf(['a', 'a', null, 'a'])
  const [first, second] = progress.take(0, 2) as [RecordInHand, RecordInHand]
  progress.settle(first)
  expect(indexes(progress.take(0, 10))).toEqual([2])
  progress.settle(second)
  expect(indexes(progress.take(0, 10))).toEqual([3])
})

test('a record without a key blocks no other, and the earliest due time is reported', () => {
  const progress = progressOf([null, null, null])
  const [first, second] = progress.take(0, 2) as [RecordInHand, RecordInHand]
  progress.postpone(first, 500)
  progress.postpone(second, 300)
  expect(progress.nextDueMs(0)).toBe(300)
  expect(indexes(progress.take(0, 10))).toEqual([2])
  expect(indexes(progress.take(300, 10))).toEqual([1])
  expect(progress.nextDueMs(300)).toBe(500)
})

test('a postponed record blocks only its lane, and returns as a suspect', () => {
  const progress = progressOf(['a', 'a', 'b'])
  const [head] = progress.take(0, 1) as [RecordInHand]
  progress.postpone(head, 500)
  expect(indexes(progress.take(499, 10))).toEqual([2])
  expect(progress.nextDueMs(499)).toBe(500)
  expect(indexes(progress.take(500, 10))).toEqual([0, 1])
  expect(head.delivery.redelivered).toBe(true)
  expect(progress.nextDueMs(500)).toBe(Number.POSITIVE_INFINITY)
})

test('no record overtakes a waiting one if the guard finds the lanes itself', () => {
  const progress = progressOf(['a', 'b', 'c'], '')
  const [a, b] = progress.take(0, 2) as [RecordInHand, RecordInHand]
  expect(progress.take(0, 10)).toEqual([])
  progress.settle(b)
  progress.postpone(a, 500)
  expect(progress.take(0, 10)).toEqual([])
  expect(indexes(progress.take(500, 10))).toEqual([0, 2])
})

test('at most a thousand records run ahead of an unsettled one', () => {
  const progress = progressOf(Array.from({ length: 3_000 }, (_, index) => String(index)))
  const [head, ...others] = progress.take(0, 3_000) as [RecordInHand, ...RecordInHand[]]
  expect(others).toHaveLength(999)
  for (const item of others) progress.settle(item)
  expect(progress.take(0, 3_000)).toEqual([])
  progress.settle(head)
  expect(progress.take(0, 3_000)).toHaveLength(1_000)
})

const MIB = 1_024 * 1_024

test.each([
  ['a thousand records', Array.from({ length: 1_000 }, () => 1), false],
  ['a record less than a thousand', Array.from({ length: 999 }, () => 1), true],
  ['four MiB', [2 * MIB, 2 * MIB], false],
  ['a byte less than four MiB', [2 * MIB, 2 * MIB - 1], true],
])('behind %s in hand the room for another fetch is: %s', (_, sizes, hasRoom) => {
  const items = itemsOf(sizes.map(() => null)).map((item, index) =>
    Object.assign(item, { bytes: sizes[index] }),
  )
  expect(new Progress(items, ({ lane }) => lane).hasRoom).toBe(hasRoom)
})

test('the watermark is at the first unsettled record, whatever the order in which records end', () => {
  let seed = 7
  const random = (): number => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  for (let round = 0; round < 200; round += 1) {
    const keys = Array.from({ length: 40 }, () =>
      random() < 0.2 ? null : String(Math.floor(random() * 6)),
    )
    const progress = progressOf(keys)
    const running: RecordInHand[] = []
    const order: number[] = []
    for (let nowMs = 1; !progress.isComplete; nowMs += 1) {
      running.push(...progress.take(nowMs, 1 + Math.floor(random() * 5)))
      const [item] = running.splice(Math.floor(random() * running.length), 1)
      if (item === undefined) continue
      if (random() < 0.3) progress.postpone(item, nowMs + random() * 5)
      else {
        order.push(indexOf(item))
        progress.settle(item)
      }
      const settled = new Set(order)
      const expected = keys.findIndex((_, index) => !settled.has(index))
      expect(lowOf(progress)).toBe(expected === -1 ? undefined : String(40 + expected))
    }
    expect([progress.running, progress.unsettled]).toEqual([0, 0])
    expect(order.toSorted((a, b) => a - b)).toEqual(keys.map((_, index) => index))
  }
})

// Red when each look for work goes through all records: with a thousand in hand of each of fifty partitions, a dependency
// that is down kept the process busy with that alone.
test('records that wait are looked at once, until one is settled, postponed, fetched or due', () => {
  let looks = 0
  const progress = new Progress(
    itemsOf(Array.from({ length: 500 }, (_, at) => `k-${at}`)),
    (item) => {
      looks += 1
      return item.lane
    },
  )
  const [first, ...others] = progress.take(0, 500) as [RecordInHand, ...RecordInHand[]]
  for (const item of others) progress.postpone(item, 60_000)
  const looksAt = (nowMs: number): number => {
    const before = looks
    for (const _ of ['first', 'second', 'third']) progress.take(nowMs, 0)
    for (const _ of ['first', 'second', 'third']) expect(progress.take(nowMs, 8)).toEqual([])
    expect(progress.nextDueMs(nowMs)).toBe(60_000)
    return looks - before
  }
  expect(looksAt(1)).toBe(499)
  expect([looksAt(2), progress.isDeferred(2)]).toEqual([0, false])
  progress.postpone(first, 60_000)
  expect([looksAt(3) > 0, looksAt(4), progress.isDeferred(4)]).toEqual([true, 0, true])
  progress.append(itemsOf(['k-1'], 540))
  expect([looksAt(5) > 0, looksAt(59_999)]).toEqual([true, 0])
  expect(progress.take(60_000, 600)).toHaveLength(501)
})
