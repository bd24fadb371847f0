import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { OnStop } from '../model/runtime.ts'
import { chunks, type InLane, inTurns, Lanes, overtaking, toLanes } from './lanes.ts'
import { stopSignals } from './stop-signals.ts'

/** The first letter of a name is its lane; `-` is no lane. */
const laneOf = (name: string) => (name.startsWith('-') ? undefined : name.slice(0, 1))

const ALL = ['a1', '-1', 'b1', 'a2', '-2', 'b2', 'a3']
const inLane = (name: string): InLane => ({ index: ALL.indexOf(name), lane: laneOf(name) })

test('items are grouped by lane in order; items without a lane get their own lane', () => {
  expect(toLanes(ALL, inLane)).toEqual([['a1', 'a2', 'a3'], ['-1'], ['b1', 'b2'], ['-2']])
})

test.each([
  ['two lanes', ['a2', 'b1'], [['a1', 'b1', 'a2', 'b2', 'a3'], ['-1'], ['-2']]],
  [
    'two items without a lane',
    ['-1', '-2'],
    [
      ['a1', 'a2', 'a3'],
      ['-1', '-2'],
      ['b1', 'b2'],
    ],
  ],
  [
    'a lane and an item without one',
    ['-1', 'b2'],
    [['a1', 'a2', 'a3'], ['-1', 'b1', 'b2'], ['-2']],
  ],
  [
    'a lane and a later item without one',
    ['b1', '-2'],
    [['a1', 'a2', 'a3'], ['-1'], ['b1', '-2', 'b2']],
  ],
  [
    'an item and one of its own lane',
    ['a1', 'a3'],
    [['a1', 'a2', 'a3'], ['-1'], ['b1', 'b2'], ['-2']],
  ],
])('an event that comes in %s joins them, in order', (_, same, expected) => {
  const lanes = toLanes(ALL, inLane, (name) => (same.includes(name) ? 'same' : name))
  const sorted = lanes.toSorted((a, b) => ALL.indexOf(a[0] ?? '') - ALL.indexOf(b[0] ?? ''))
  expect(sorted).toEqual(expected)
})

describe('a lane', () => {
  const setUp = () =>
    new Lanes<number>({ stopsLane: (ms) => ms > 0, laneFollowerOutcome: (ms) => -ms })

  test('runs up to the item that stopped it, and what follows gets its deferral', () => {
    const lanes = setUp()
    lanes.note({ index: 1, lane: 'a' }, 0)
    expect(lanes.isStopped('a')).toBe(false)
    lanes.note({ index: 2, lane: 'a' }, 7)
    const outcomes = [1, 2, 3, 9].map((index) => lanes.followerOutcome({ index, lane: 'a' }))
    expect(outcomes).toEqual([undefined, undefined, -7, -7])
    expect([lanes.isStopped('a'), lanes.isStopped('b')]).toEqual([true, false])
    expect(lanes.followerOutcome({ index: 3, lane: 'b' })).toBeUndefined()
  })

  // The outcomes of a message that could not be read and of a duplicate are known before those of earlier events.
  test.each([
    [5, 2],
    [2, 5],
  ])(
    'stops at the earliest of its items, in whatever order their outcomes are known',
    (...order) => {
      const lanes = setUp()
      for (const index of order) lanes.note({ index, lane: 'a' }, index)
      const outcomes = [1, 3, 6].map((index) => lanes.followerOutcome({ index, lane: 'a' }))
      expect(outcomes).toEqual([undefined, -2, -2])
    },
  )

  test('is no lane for an item without one', () => {
    const lanes = setUp()
    lanes.note({ index: 0 }, 7)
    expect(lanes.isStopped(undefined)).toBe(false)
    expect(lanes.followerOutcome({ index: 1 })).toBeUndefined()
  })
})

test.each([
  ['nothing, if all run', ['a1', 'b1', 'a2'], []],
  ['every item behind one of its lane that does not run', ['b1', 'a2', 'b2', 'a3'], ['a2', 'a3']],
  ['nothing behind an item of another lane', ['b1', 'b2'], []],
  ['only what is behind the gap', ['a1', 'b2', 'a3'], ['b2', 'a3']],
  ['no item without a lane', ['-1', '-2'], []],
])('items that would overtake their lane: %s', (_, going, early) => {
  expect(overtaking(ALL, going, laneOf)).toEqual(early)
})

test('batches keep the order and all items', () => {
  expect(chunks([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]])
  expect(chunks([], 2)).toEqual([])
})

/** Items whose runs end when the test says. */
function takingTurns(width: number) {
  const stopping = new AbortController()
  const { whenStopping } = stopSignals([stopping.signal])
  let listeners = 0
  const stop: OnStop = (onStop) => {
    listeners += 1
    const unsubscribe = whenStopping(onStop)
    return () => {
      listeners -= 1
      unsubscribe()
    }
  }
  const started: string[] = []
  const gates = new Map<string, PromiseWithResolvers<void>>()
  let isOver = false
  const over = inTurns(['a', 'b', 'c', 'd'], { stop, width }, (item) => {
    started.push(item)
    const gate = Promise.withResolvers<void>()
    gates.set(item, gate)
    return gate.promise
  })
  const ended = over.finally(() => {
    isOver = true
  })
  ended.catch(() => undefined)
  return { started, gates, stopping, over, ended, isOver: () => isOver, listeners: () => listeners }
}

test('items run in order, as many at once as the width, and the end waits for all', async () => {
  const { ended, gates, isOver, listeners, started } = takingTurns(2)
  expect([started, listeners()]).toEqual([['a', 'b'], 1])
  gates.get('b')?.resolve()
  await turn()
  expect(started).toEqual(['a', 'b', 'c'])
  gates.get('a')?.resolve()
  gates.get('c')?.resolve()
  await turn()
  expect([started, isOver()]).toEqual([['a', 'b', 'c', 'd'], false])
  gates.get('d')?.resolve()
  await ended
  expect([started.length, listeners()]).toEqual([4, 0])
})

test('more width than items is no more items', async () => {
  const { ended, gates, started } = takingTurns(9)
  expect(started).toEqual(['a', 'b', 'c', 'd'])
  for (const { resolve } of gates.values()) resolve()
  await ended
})

test('after a stop the items that wait do not wait for those that run, and the end waits for both', async () => {
  const { ended, gates, isOver, started, stopping } = takingTurns(1)
  stopping.abort()
  expect(started).toEqual(['a', 'b'])
  gates.get('b')?.resolve()
  await turn()
  gates.get('c')?.resolve()
  gates.get('a')?.resolve()
  await turn()
  expect([started, isOver()]).toEqual([['a', 'b', 'c', 'd'], false])
  gates.get('d')?.resolve()
  await ended
})

test('an item that fails ends the turns with its error, and the stop has no listener any more', async () => {
  const { gates, listeners, over } = takingTurns(1)
  gates.get('a')?.reject(new Error('no'))
  await expect(over).rejects.toThrow('no')
  expect(listeners()).toBe(0)
})
