import { Clock } from '@onceward/testing/adapter'
import { expect, test } from 'vitest'
import type { RefusedEntry } from '../client.ts'
import { BatchRequests, type BatchRequestsOptions, type EntryAnswer } from './batch-requests.ts'

type Answer = readonly RefusedEntry[] | Error

/** A queue that records each request with its time, and answers as told; without an answer it takes every entry. */
function setUp(options: Partial<BatchRequestsOptions> = {}, ...answers: Answer[]) {
  const clock = new Clock()
  const startMs = clock.nowMs
  const requests: { readonly atMs: number; readonly handles: readonly string[] }[] = []
  const batches = new BatchRequests({
    runtime: clock.runtime,
    call: async (entries) => {
      const handles = entries.map(({ handle }) => handle)
      requests.push({ atMs: clock.nowMs - startMs, handles })
      const answer = answers.shift() ?? []
      if (answer instanceof Error) throw answer
      return answer
    },
    ...options,
  })
  const answered: EntryAnswer[] = []
  const add = (name: string | number, hiddenMs = 60_000): void => {
    const expiresAtMs = clock.nowMs + hiddenMs
    const entry = { handle: `h-${name}`, seconds: 0, sequence: Number(name), expiresAtMs }
    void batches.add(entry).then((answer) => answered.push(answer))
  }
  return { clock, requests, answered, add }
}

const refused = (index: number, senderFault = false): RefusedEntry => ({
  ...{ index, senderFault, code: `refused-${index}` },
})
const handles = (from: number, to: number): readonly string[] => {
  const step = from < to ? 1 : -1
  const count = Math.abs(to - from) + 1
  return Array.from({ length: count }, (_, index) => `h-${from + index * step}`)
}
const settled = { kind: 'settled' }

test('a request is sent when its first entry has waited for the window', async () => {
  const { add, answered, clock, requests } = setUp({ windowMs: 20 })
  add(1)
  await clock.advance(15)
  add(2)
  await clock.advance(4)
  expect(requests).toEqual([])
  await clock.advance(1)
  expect(requests).toEqual([{ atMs: 20, handles: ['h-1', 'h-2'] }])
  expect(answered).toEqual([settled, settled])
  add(3)
  await clock.advance(20)
  expect(requests.slice(1)).toEqual([{ atMs: 40, handles: ['h-3'] }])
})

test('a request that is full is sent at once, and its window is over', async () => {
  const { add, clock, requests } = setUp()
  for (let entry = 1; entry <= 12; entry += 1) add(entry)
  await clock.advance(0)
  expect(requests).toEqual([{ atMs: 0, handles: handles(1, 10) }])
  expect(clock.timers).toBe(1)
  await clock.advance(5)
  expect(requests.slice(1)).toEqual([{ atMs: 5, handles: ['h-11', 'h-12'] }])
  expect(clock.timers).toBe(0)
})

// Red when a full request goes out at once: what comes after it would be visible last, before its predecessors.
test('entries that go last first are sent in full requests, one after the other', async () => {
  const { add, answered, clock, requests } = setUp({ lastFirst: true }, [refused(0)])
  for (const entry of Array.from({ length: 23 }, (_, index) => index + 1)) add(entry)
  await clock.advance(4)
  expect(requests).toEqual([])
  await clock.advance(1)
  // The next request waits until the refused entry has been sent again.
  expect(requests).toEqual([{ atMs: 5, handles: handles(23, 14) }])
  await clock.advance(150)
  expect(requests.slice(1)).toEqual([
    { atMs: 155, handles: ['h-23'] },
    { atMs: 155, handles: handles(13, 4) },
    { atMs: 155, handles: handles(3, 1) },
  ])
  expect(answered).toEqual(Array(23).fill(settled))
})

test('only the entries that SQS refused by its own fault are sent again', async () => {
  const { add, answered, clock, requests } = setUp({}, [refused(2), refused(0, true)])
  for (const entry of [1, 2, 3]) add(entry)
  await clock.advance(5)
  expect(answered).toEqual([{ kind: 'refused', code: 'refused-0' }, settled])
  await clock.advance(149)
  expect(requests).toHaveLength(1)
  await clock.advance(1)
  expect(requests.slice(1)).toEqual([{ atMs: 155, handles: ['h-3'] }])
  expect(answered.slice(2)).toEqual([settled])
  expect(clock.timers).toBe(0)
})

// Red when a message that another consumer may have by now is deleted, or hidden from it.
test.each([
  [155, 1],
  [156, 2],
])('an entry that is hidden for %i ms is sent %i times', async (hiddenMs, times) => {
  const { add, answered, clock, requests } = setUp({}, [refused(0)])
  add(1, hiddenMs)
  await clock.advance(60_000)
  expect(requests).toHaveLength(times)
  expect(answered).toEqual([times === 1 ? { kind: 'refused', code: 'refused-0' } : settled])
})

test.each([
  ['QueueDoesNotExist', 1],
  ['AccessDenied', 1],
  ['ReceiptHandleIsInvalid', 1],
  ['ExpiredToken', 2],
  ['RequestThrottled', 2],
  ['ECONNRESET', 2],
  ['Unheard', 2],
])('a request that fails with %s is sent %i times', async (name, times) => {
  const { add, answered, clock, requests } = setUp({}, Object.assign(new Error('no'), { name }))
  add(1)
  add(2)
  await clock.advance(60_000)
  expect(requests.map((request) => request.handles)).toEqual(Array(times).fill(['h-1', 'h-2']))
  const told = times === 1 ? { kind: 'refused', code: `${name}: no` } : settled
  expect(answered).toEqual([told, told])
})
