import { handMadeGuard } from '@onceward/testing/adapter'
import type { EachBatchPayload } from 'kafkajs'
import { expect, test } from 'vitest'
import { fetchOf, message, protocolError } from '../../fixtures/fetch.ts'
import { Commits } from './commits.ts'
import { FetchedBatch } from './fetched-batch.ts'

type Request = Parameters<EachBatchPayload['commitOffsetsIfNecessary']>[0]

/** Batches of one settled record each, and the requests to their consumer. */
function setUp() {
  const { clock, logged, port } = handMadeGuard()
  const commits = new Commits(port)
  const requests: Request[] = []
  const answers: PromiseWithResolvers<void>[] = []
  const batchOf = (partition: number): FetchedBatch => {
    const { payload } = fetchOf([message(40, 'a')], { partition })
    payload.commitOffsetsIfNecessary = (request) => {
      requests.push(request)
      const answer = Promise.withResolvers<void>()
      answers.push(answer)
      return answer.promise
    }
    const options = { clusterId: undefined, sharedLane: undefined, nowMs: clock.nowMs }
    const batch = new FetchedBatch(payload, { ...options, isSetBack: false })
    for (const item of batch.progress.take(clock.nowMs, 1)) batch.progress.settle(item)
    return batch
  }
  return { clock, logged, commits, requests, answers, batchOf }
}

const requestOf = (...partitions: number[]): Request => ({
  topics: [
    { topic: 'orders', partitions: partitions.map((partition) => ({ partition, offset: '41' })) },
  ],
})

// Red when each partition sends its own commit: a broker that is down gets as many requests as there are partitions.
test('one commit request is in flight at a time, and the next one contains everything that came meanwhile', async () => {
  const { clock, commits, requests, answers, batchOf } = setUp()
  const [one, two, three] = [batchOf(0), batchOf(1), batchOf(2)]
  const first = commits.commit(one)
  await clock.advance(0)
  const others = [commits.commit(two), commits.commit(three)]
  await clock.advance(0)
  expect(requests).toEqual([requestOf(0)])
  answers[0]?.resolve()
  expect(await first).toBe(true)
  await clock.advance(0)
  expect(requests).toEqual([requestOf(0), requestOf(1, 2)])
  answers[1]?.resolve()
  expect(await Promise.all(others)).toEqual([true, true])
  expect(await commits.commit(two)).toBe(true)
  expect(requests).toHaveLength(2)
})

test('a broker that did not answer gets no commit for ten seconds, or until it answers something', async () => {
  const { clock, commits, requests, answers, batchOf } = setUp()
  const [one, two] = [batchOf(0), batchOf(1)]
  const first = commits.commit(one)
  await clock.advance(0)
  answers[0]?.reject(new Error('connect ECONNREFUSED'))
  expect(await first).toBe(false)
  expect([commits.failures, commits.isQuiet]).toEqual([1, true])
  expect(await commits.commit(two)).toBe(false)
  await clock.advance(10_000)
  const again = commits.commit(two)
  await clock.advance(0)
  answers[1]?.reject(new Error('connect ECONNREFUSED'))
  expect(await again).toBe(false)
  commits.answered()
  const last = commits.commit(two)
  await clock.advance(0)
  answers[2]?.resolve()
  expect(await last).toBe(true)
  expect(requests).toEqual([requestOf(0), requestOf(1), requestOf(1)])
})

// Red when the offsets count as committed: they are sent again only with other records, if the member never rejoins.
test('a rebalance is not a failure, and its offsets stay to be committed', async () => {
  const { clock, commits, answers, batchOf } = setUp()
  const [one, two] = [batchOf(0), batchOf(1)]
  const both = [commits.commit(one), commits.commit(two)]
  await clock.advance(0)
  const error = protocolError('ILLEGAL_GENERATION')
  answers[0]?.reject(error)
  expect(await Promise.all(both)).toEqual([false, false])
  expect([commits.failures, commits.isQuiet]).toEqual([0, false])
  expect([one.rebalance?.error, two.rebalance?.error]).toEqual([error, error])
})

// Red when one queue is for all consumers: a request on a silent connection takes half a minute to fail.
test('a new consumer does not wait for commits of the one before', async () => {
  const { clock, commits, requests, answers, batchOf } = setUp()
  void commits.commit(batchOf(0))
  await clock.advance(0)
  commits.begin()
  const next = commits.commit(batchOf(1))
  await clock.advance(0)
  answers[1]?.resolve()
  expect(await next).toBe(true)
  expect(requests).toHaveLength(2)
})

// Red when the silence of the connection before counts: what a new consumer has done stays uncommitted for ten seconds.
test('a new consumer commits although the broker did not answer the one before', async () => {
  const { clock, commits, requests, answers, batchOf } = setUp()
  commits.keepQuiet()
  commits.begin()
  const next = commits.commit(batchOf(0))
  await clock.advance(0)
  expect(requests).toEqual([requestOf(0)])
  answers[0]?.resolve()
  expect(await next).toBe(true)
})

// Red when only a counter rises: a group whose offsets are never committed looks healthy until it processes everything again.
test('commits that fail are logged once, with what to do, and once more when they succeed', async () => {
  const { clock, logged, commits, answers, batchOf } = setUp()
  const batch = batchOf(0)
  const commit = async (error?: Error): Promise<void> => {
    commits.answered()
    const committed = commits.commit(batch)
    await clock.advance(0)
    if (error === undefined) answers.at(-1)?.resolve()
    else answers.at(-1)?.reject(error)
    await committed
  }
  const denied = protocolError('TOPIC_AUTHORIZATION_FAILED')
  for (const error of [denied, denied]) await commit(error)
  const reason = 'TOPIC_AUTHORIZATION_FAILED: TOPIC_AUTHORIZATION_FAILED'
  const fix = expect.stringContaining('allow this client to Read the group and the topics')
  const text = 'offsets cannot be committed'
  const fields = { consumer: 'billing', topics: ['orders'], reason, fix }
  expect(logged).toEqual([{ level: 'warn', fields, text }])
  expect(commits.notice).toBe(`offsets are not committed: ${reason}`)
  await commit(new Error('Connection closed'))
  expect(logged.slice(1)).toMatchObject([{ fields: { reason: 'Error: Connection closed' }, text }])
  await commit()
  expect(logged.slice(2)).toMatchObject([{ level: 'info', text: 'offsets are committed again' }])
  expect(commits.notice).toBeUndefined()
})
