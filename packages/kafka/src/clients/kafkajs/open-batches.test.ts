import { expect, test } from 'vitest'
import { fetchOf, message } from '../../fixtures/fetch.ts'
import { FetchedBatch } from './fetched-batch.ts'
import { OpenBatches } from './open-batches.ts'

const NOW_MS = 1_000_000
const MIB = 1_024 * 1_024

/** A batch with one record of each of these sizes; the first offset is 40. */
function batchOf(partition: number, ...sizes: readonly number[]): FetchedBatch {
  const records = sizes.map((size, index) =>
    message(40 + index, null, { value: Buffer.alloc(size), headers: {} }),
  )
  return new FetchedBatch(fetchOf(records, { partition }).payload, {
    ...{ clusterId: undefined, sharedLane: undefined, nowMs: NOW_MS, isSetBack: false },
  })
}

function opened(...batches: readonly FetchedBatch[]): OpenBatches {
  const open = new OpenBatches()
  for (const batch of batches) open.add(batch)
  return open
}

const place = (partition: number) => ({ topic: 'orders', partition })

test('a partition has one batch, and keeps its turn', () => {
  const [first, second, other] = [batchOf(0, 1), batchOf(0, 1), batchOf(1, 1)]
  const open = opened(first, other, second)
  expect(open.all).toEqual([second, other])
  expect([open.of(place(0)), open.of(place(2))]).toEqual([second, undefined])
})

// Red when the batch before takes it along: nothing would end the records in hand of the one that followed.
test('a batch that another one followed is removed without it', () => {
  const [first, second] = [batchOf(0, 1), batchOf(0, 1, 1)]
  const open = opened(first, second)
  open.remove(first)
  expect(open.all).toEqual([second])
  open.remove(second)
  expect(open.all).toEqual([])
})

test('partitions that kafkajs does not wait for are busy, unless their records only wait for a time', () => {
  const [attached, running, deferred] = [batchOf(0, 1), batchOf(1, 1), batchOf(2, 1)]
  const open = opened(attached, running, deferred)
  expect(open.busy(NOW_MS)).toBe(0)
  running.detach()
  deferred.detach()
  for (const item of deferred.progress.take(NOW_MS, 1)) {
    deferred.progress.postpone(item, NOW_MS + 60_000)
  }
  expect(open.busy(NOW_MS)).toBe(1)
  expect(open.busy(NOW_MS + 60_000)).toBe(2)
})

test('a partition at its own bound is full, and so is one that stops', () => {
  const [small, large, stopped] = [batchOf(0, MIB), batchOf(1, 4 * MIB), batchOf(2, 1)]
  const open = opened(small, large, stopped)
  expect([open.full, open.isFull(place(1)), open.isFull(place(2))]).toEqual([1, true, false])
  stopped.stop.abort()
  expect([small, large, stopped].map((batch) => open.hasRoom(batch))).toEqual([true, false, false])
  expect([0, 1, 2].map((partition) => open.isFull(place(partition)))).toEqual([false, true, true])
  expect(open.full).toBe(2)
})

// Red when each partition has its own bound alone: three hundred of them would hold 1.2 GB.
test('at 64 MiB in hand all partitions with records in hand are full, and others are not', () => {
  const large = Array.from({ length: 21 }, (_, partition) => batchOf(partition, 3 * MIB))
  const open = opened(...large, batchOf(21, MIB - 1))
  expect([open.full, open.isFull(place(0))]).toEqual([0, false])
  open.add(batchOf(22, 1))
  expect([open.full, open.isFull(place(0)), open.isFull(place(23))]).toEqual([23, true, false])
  open.remove(large[0] as FetchedBatch)
  expect([open.full, open.isFull(place(1))]).toEqual([0, false])
})
