import { describe, expect, test } from 'vitest'
import { batchedCalls } from './batched-calls.ts'

/** Calls that wait until they are told to end. */
function held() {
  const calls: { items: readonly number[]; end: () => void; fail: (error: Error) => void }[] = []
  const call = (items: readonly number[]): Promise<readonly string[]> => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>()
    calls.push({ items, end: () => resolve(items.map(String)), fail: reject })
    return promise
  }
  const shapes = () => calls.map(({ items }) => items)
  return { call, calls, shapes }
}

const settled = () => new Promise(setImmediate)

describe('calls', () => {
  test('that come while another is in flight share the next one, and each gets its own answers', async () => {
    const { call, calls, shapes } = held()
    const share = batchedCalls(call, { width: 1, most: 10 })
    const answers = [share([1]), share([2, 3]), share([4])]
    expect(shapes()).toEqual([[1]])
    calls[0]?.end()
    await settled()
    expect(shapes()).toEqual([[1], [2, 3, 4]])
    calls[1]?.end()
    expect(await Promise.all(answers)).toEqual([['1'], ['2', '3'], ['4']])
  })

  // Red when calls queue for one connection although there are two: sharing does not speed up large calls.
  test('run in parallel up to the width', async () => {
    const { call, calls, shapes } = held()
    const share = batchedCalls(call, { width: 2, most: 10 })
    const answers = Promise.all([share([1]), share([2]), share([3]), share([4])])
    expect(shapes()).toEqual([[1], [2]])
    calls[1]?.end()
    await settled()
    expect(shapes()).toEqual([[1], [2], [3, 4]])
    for (const { end } of calls) end()
    expect(await answers).toEqual([['1'], ['2'], ['3'], ['4']])
  })

  test('are not shared if no other call waits', async () => {
    const { call, calls, shapes } = held()
    const share = batchedCalls(call, { width: 1, most: 10 })
    const first = share([1])
    calls[0]?.end()
    await first
    await settled()
    void share([2])
    expect(shapes()).toEqual([[1], [2]])
  })

  test('share at most the allowed number of items, and the items of one caller stay together', async () => {
    const { call, calls, shapes } = held()
    const share = batchedCalls(call, { width: 1, most: 3 })
    const answers = [share([0]), share([1, 2, 3, 4]), share([5, 6]), share([7]), share([8])]
    for (const place of [0, 1, 2, 3]) {
      calls[place]?.end()
      await settled()
    }
    await Promise.all(answers)
    expect(shapes()).toEqual([[0], [1, 2, 3, 4], [5, 6, 7], [8]])
  })

  test('that fail reject only the callers who shared them', async () => {
    const { call, calls } = held()
    const share = batchedCalls(call, { width: 1, most: 10 })
    const early = Promise.allSettled([share([1]), share([2]), share([3])])
    calls[0]?.fail(new Error('first'))
    await settled()
    const late = Promise.allSettled([share([4])])
    calls[1]?.fail(new Error('second'))
    await settled()
    calls[2]?.end()
    const outcomes = [...(await early), ...(await late)]
    expect(
      outcomes.map((outcome) => ('reason' in outcome ? outcome.reason.message : 'fine')),
    ).toEqual(['first', 'second', 'second', 'fine'])
  })
})
