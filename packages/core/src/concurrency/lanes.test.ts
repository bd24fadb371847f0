import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { OnStop } from '../model/runtime.ts'
import { chunks, inTurns, toLanes } from './lanes.ts'
import { stopSignals } from './stop-signals.ts'

test('items are grouped by lane in order; items without a lane get their own lane', () => {
  const items = ['a1', 'x', 'b1', 'a2', 'y', 'b2']
  const laneOf = (item: string) => (item.length === 2 ? item.slice(0, 1) : undefined)
  expect(toLanes(items, laneOf)).toEqual([['a1', 'a2'], ['x'], ['b1', 'b2'], ['y']])
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

test('an item that fails ends the turns with its error, and nobody listens for a stop any more', async () => {
  const { gates, listeners, over } = takingTurns(1)
  gates.get('a')?.reject(new Error('no'))
  await expect(over).rejects.toThrow('no')
  expect(listeners()).toBe(0)
})
