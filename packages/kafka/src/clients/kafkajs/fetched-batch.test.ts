import type { KafkaMessage } from 'kafkajs'
import { describe, expect, test } from 'vitest'
import { type Fetch, fetchOf, message, protocolError } from '../../fixtures/fetch.ts'
import { records } from '../../fixtures/member.ts'
import type { InHand } from '../../offsets.ts'
import { FetchedBatch, type FetchedOptions, refuseIfRebalancing } from './fetched-batch.ts'

const NOW_MS = 1_000_000

function batchOf(
  messages: readonly KafkaMessage[] = records('a', 'b', 'c'),
  options: Partial<FetchedOptions> = {},
): Fetch & { readonly batch: FetchedBatch } {
  const fetch = fetchOf(messages, { partition: 3 })
  const batch = new FetchedBatch(fetch.payload, {
    ...{ clusterId: undefined, sharedLane: undefined, nowMs: NOW_MS, isSetBack: false },
    ...options,
  })
  return { ...fetch, batch }
}

/** Starts as many records as may run. */
const start = ({ progress }: FetchedBatch, most = 10): readonly InHand[] =>
  progress.take(NOW_MS, most)

/** Starts and settles as many records, in order. */
function finish(batch: FetchedBatch, count: number): void {
  for (const item of start(batch, count)) batch.progress.settle(item)
}

const rebalancing = protocolError('REBALANCE_IN_PROGRESS')

describe('records in hand', () => {
  test('name the partition, and run in the order of their keys', () => {
    const { batch } = batchOf(records('a', 'a', 'b'), { clusterId: 'cluster-1' })
    expect([batch.topic, batch.partition, batch.end]).toEqual(['orders', 3, '43'])
    const [first] = start(batch, 1)
    const others = start(batch)
    expect(first?.record).toMatchObject({
      topic: 'orders',
      partition: 3,
      message: { offset: '40' },
    })
    expect(others.map(({ record }) => record.message.offset)).toEqual(['42'])
    expect(first?.delivery.source).toMatchObject({ position: '3/40' })
    expect(JSON.stringify(first?.delivery)).toContain('cluster-1')
  })

  test('are all of one lane if the guard finds lanes itself', () => {
    const { batch } = batchOf(records('a', 'b', null), { sharedLane: '' })
    expect([start(batch, 1).length, start(batch)]).toEqual([1, []])
  })

  test('are followed by those of a later fetch, and by no others', () => {
    const { batch } = batchOf()
    const follows = (...messages: readonly KafkaMessage[]): boolean =>
      batch.isContinuedBy(fetchOf(messages).payload)
    expect([message(43, 'd'), message(90, 'd')].map((each) => follows(each))).toEqual([true, true])
    expect([message(42, 'c'), message(9, 'd')].map((each) => follows(each))).toEqual([false, false])
    expect(follows()).toBe(false)
  })

  test('of a later fetch make kafkajs wait again', async () => {
    const { batch } = batchOf(records('a'))
    expect(batch.attached).toBe(true)
    batch.release()
    await batch.released
    batch.detach()
    const next = fetchOf([message(41, 'b'), message(42, 'c')])
    batch.append(next.payload, NOW_MS + 5_000)
    expect([batch.attached, batch.inFlight, batch.end]).toEqual([true, 3, '43'])
    expect([batch.openedAtMs, batch.lastKnownAtMs]).toEqual([NOW_MS + 5_000, NOW_MS + 5_000])
    let isReleased = false
    const released = batch.released.then(() => {
      isReleased = true
    })
    await Promise.resolve()
    expect(isReleased).toBe(false)
    batch.release()
    await released
    batch.position()
    expect(next.calls).toEqual(['resolve 42'])
  })

  // Red when only the user data are copied: one record in hand keeps up to 10 MB of its fetch in memory.
  test('get bytes of their own when kafkajs goes on, unless none is left', () => {
    const [open, over] = [batchOf(), batchOf()]
    const valuesOf = ({ payload }: Fetch) => payload.batch.messages.map(({ value }) => value)
    const before = [valuesOf(open)[0], valuesOf(over)[0]]
    finish(over.batch, 3)
    for (const { batch } of [open, over]) batch.detach()
    expect([open.batch.attached, over.batch.attached]).toEqual([false, false])
    expect(valuesOf(open)[0]).toEqual(before[0])
    expect(valuesOf(open)[0]).not.toBe(before[0])
    expect(valuesOf(over)[0]).toBe(before[1])
  })

  test('are over when all are settled', () => {
    const { batch } = batchOf()
    expect([batch.isOver, batch.inFlight]).toEqual([false, 3])
    finish(batch, 3)
    expect([batch.isOver, batch.inFlight]).toEqual([true, 0])
  })

  test.each(['stopped', 'lost'])('of a %s partition are over when none runs', (what) => {
    const { batch } = batchOf()
    const [first] = start(batch, 1)
    if (what === 'lost') batch.lose()
    else batch.stop.abort()
    expect([batch.isOver, batch.stop.signal.aborted, batch.abort.signal.aborted]).toEqual([
      ...[false, true, false],
    ])
    // Records of a lost partition are not started by this member any more.
    expect(batch.inFlight).toBe(what === 'lost' ? 1 : 3)
    batch.progress.settle(first as InHand)
    expect(batch.isOver).toBe(true)
  })
})

describe('the offset to commit', () => {
  const next = (batch: FetchedBatch) => batch.uncommitted(NOW_MS)?.offset

  test('is that of the first record that is not settled, and none until one was', () => {
    const { batch } = batchOf()
    expect([next(batch), batch.isCommitted]).toEqual([undefined, true])
    const [first, second] = start(batch, 2)
    batch.progress.settle(second as InHand)
    expect(next(batch)).toBeUndefined()
    batch.progress.settle(first as InHand)
    expect(batch.isCommitted).toBe(false)
    const later = NOW_MS + 700
    expect(batch.uncommitted(later)).toEqual({ topic: 'orders', partition: 3, offset: '42' })
    expect(batch.lastCommitAtMs).toBe(later)
    batch.committed({ topic: 'orders', partition: 3, offset: '42' })
    expect([batch.uncommitted(later + 1), batch.isCommitted]).toEqual([undefined, true])
    expect(batch.lastCommitAtMs).toBe(later)
    finish(batch, 1)
    expect(next(batch)).toBe('43')
  })

  // Red when it is taken for committed: after a crash the group would go on at the higher offset, past these records.
  test('is that of the first record at once, if the position was set back', () => {
    const { batch } = batchOf(records('a'), { isSetBack: true })
    expect([next(batch), batch.isCommitted]).toEqual(['40', false])
  })

  test('is none of a lost partition', () => {
    const { batch } = batchOf()
    finish(batch, 1)
    batch.lose()
    expect([next(batch), batch.isCommitted]).toEqual([undefined, true])
  })

  test('is sent as it is given, and the error is that of kafkajs', async () => {
    const { batch, broker, calls } = batchOf()
    const topics = [{ topic: 'orders', partitions: [{ partition: 3, offset: '41' }] }]
    await batch.send(topics)
    expect(calls).toEqual(['commit 41'])
    broker.commit = rebalancing
    await expect(batch.send(topics)).rejects.toBe(rebalancing)
  })
})

describe('what kafkajs says', () => {
  test('the position is moved behind the last record, unless a join has taken the topic away', () => {
    const { batch, calls, payload } = batchOf()
    expect([batch.position(), calls]).toEqual([true, ['resolve 42']])
    payload.resolveOffset = () => {
      throw new TypeError("Cannot read properties of undefined (reading '3')")
    }
    expect(batch.position()).toBe(false)
  })

  test('the consumer was stopped', () => {
    const { batch, broker } = batchOf()
    expect(batch.isStopped).toBe(false)
    broker.isRunning = false
    expect(batch.isStopped).toBe(true)
  })

  // Red when a later error replaces it: the grace of the handlers would begin again with each heartbeat.
  test('a heartbeat tells of a rebalance, and of the first one only', async () => {
    const { batch, broker } = batchOf()
    expect([await batch.heartbeat(NOW_MS), batch.rebalance]).toEqual(['answered', undefined])
    broker.heartbeat = new Error('wrapped', { cause: rebalancing })
    expect(await batch.heartbeat(NOW_MS + 1)).toBe('answered')
    broker.heartbeat = protocolError('UNKNOWN_MEMBER_ID')
    expect(await batch.heartbeat(NOW_MS + 2)).toBe('answered')
    expect(batch.rebalance).toEqual({ error: rebalancing, atMs: NOW_MS + 1 })
  })

  test('a heartbeat that fails otherwise is left to kafkajs', async () => {
    const { batch, broker } = batchOf()
    broker.heartbeat = protocolError('REQUEST_TIMED_OUT')
    expect([await batch.heartbeat(NOW_MS), batch.rebalance]).toEqual(['failed', undefined])
  })

  test('a fetch of a rebalance is refused with the error that makes kafkajs rejoin', async () => {
    const { broker, payload } = batchOf()
    broker.heartbeat = new Error('wrapped', { cause: rebalancing })
    await expect(refuseIfRebalancing(payload, false)).rejects.toBe(rebalancing)
  })

  // Red when the broker is asked: it takes a member whose join got no answer for one of its generation.
  test('a fetch while a join is missing is refused whatever the broker says', async () => {
    const { payload } = batchOf()
    await expect(refuseIfRebalancing(payload, true)).rejects.toMatchObject({
      ...{
        type: 'REBALANCE_IN_PROGRESS',
        message: expect.stringContaining('no join has ended it'),
      },
    })
  })

  test.each([undefined, protocolError('REQUEST_TIMED_OUT')])(
    'a fetch is taken otherwise, also if the heartbeat fails: %s',
    async (error) => {
      const { broker, payload } = batchOf()
      broker.heartbeat = error
      expect(await refuseIfRebalancing(payload, false)).toBeUndefined()
    },
  )
})
