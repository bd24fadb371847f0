import { FatalError, header, messageId } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { redis as redisServer, type Server, until } from '@onceward/testing'
import { guardOf } from '@onceward/testing/adapter'
import { silent } from '@onceward/testing/conformance'
import { type Job, Queue, UnrecoverableError, Worker, type WorkerOptions } from 'bullmq'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { bullmqDestination, bullmqJob, bullmqProcessor } from './index.ts'

let server: Server<{ readonly url: string }>
let connection: { readonly url: string; readonly maxRetriesPerRequest: null }

beforeAll(async () => {
  server = await redisServer()
  connection = { url: server.connection.url, maxRetriesPerRequest: null }
})
afterAll(() => server.stop())

let queues = 0

function freshQueue(): Queue {
  const queue = new Queue(`orders-${process.pid}-${++queues}`, { connection })
  onTestFinished(async () => {
    await queue.obliterate({ force: true })
    await queue.close()
  })
  return queue
}

/** A worker that ends with the test. */
function work(
  queue: Queue,
  guard: Parameters<typeof bullmqProcessor>[0],
  options: Partial<WorkerOptions> = {},
): Worker {
  const worker = new Worker(queue.name, bullmqProcessor(guard), { connection, ...options })
  worker.on('error', () => undefined)
  onTestFinished(async () => {
    await worker.close()
    await guard.close()
  })
  return worker
}

const byPayload = { eventKey: ({ payload }: { payload: { key: string } }) => payload.key }
const state = async (queue: Queue, job: Job): Promise<string> => queue.getJobState(job.id ?? '')
const reaches = (queue: Queue, job: Job, wanted: string): Promise<boolean> =>
  until(async () => (await state(queue, job)) === wanted)
const again = async (queue: Queue, job: Job): Promise<Job> =>
  (await queue.getJob(job.id ?? '')) as Job

test('a job has one effect, and its copy gets the same return value', async () => {
  const queue = freshQueue()
  const runs: string[] = []
  const guard = guardOf((event) => {
    runs.push(event.payload.key)
    expect(bullmqJob(event)?.name).toBe('place')
    return { charged: event.payload.key }
  }, byPayload)
  work(queue, guard)
  const first = await queue.add('place', { key: 'a' })
  await reaches(queue, first, 'completed')
  const copy = await queue.add('place', { key: 'a' })
  await reaches(queue, copy, 'completed')
  expect(runs).toEqual(['a'])
  const values = [await again(queue, first), await again(queue, copy)].map(
    ({ returnvalue }) => returnvalue,
  )
  expect(values).toEqual([{ charged: 'a' }, { charged: 'a' }])
})

test('a job that fails waits as the guard says, and spends no attempt of BullMQ', async () => {
  const queue = freshQueue()
  const attempts: number[] = []
  const guard = guardOf(
    ({ attempt }) => {
      attempts.push(attempt)
      if (attempt < 3) throw new Error('not yet')
    },
    { ...byPayload, retry: { attempts: 5, baseMs: 0 } },
  )
  work(queue, guard)
  const job = await queue.add('place', { key: 'a' })
  await reaches(queue, job, 'completed')
  expect(attempts).toEqual([1, 2, 3])
  // One is counted for the completion itself.
  expect((await again(queue, job)).attemptsMade).toBe(1)
})

test('a dead job is recorded and goes to the failed jobs at once, whatever attempts BullMQ has left', async () => {
  const queue = freshQueue()
  const inbox = memoryInbox()
  let runs = 0
  const guard = guardOf(
    () => {
      runs += 1
      throw new FatalError('no such customer')
    },
    byPayload,
    inbox,
  )
  work(queue, guard)
  const job = await queue.add('place', { key: 'a' }, { attempts: 5 })
  await reaches(queue, job, 'failed')
  const { failedReason } = await again(queue, job)
  expect(failedReason).toContain('dead (fatal): no such customer')
  expect(failedReason).toContain('npx onceward dead-letters')
  // A retry by BullMQ's own tools finds the event dead.
  await (await again(queue, job)).retry()
  await until(async () => ((await again(queue, job)).attemptsStarted ?? 0) === 2)
  await reaches(queue, job, 'failed')
  expect(runs).toBe(1)
})

test('a worker names dead jobs by the error that BullMQ has for them', async () => {
  const guard = guardOf(() => {
    throw new FatalError('no')
  }, byPayload)
  const processor = bullmqProcessor(guard)
  const queue = freshQueue()
  const job = await queue.add('place', { key: 'a' })
  const thrown = await processor(job).catch((error: unknown) => error)
  expect(thrown).toMatchObject({ name: new UnrecoverableError().name })
  await guard.close()
})

test('a job that lost its lock and runs in two workers has one effect', async () => {
  const queue = freshQueue()
  const inbox = memoryInbox()
  const runs: string[] = []
  const release = Promise.withResolvers<void>()
  const slow = guardOf(
    async () => {
      runs.push('slow')
      await release.promise
    },
    byPayload,
    inbox,
  )
  const other = guardOf(() => void runs.push('other'), byPayload, inbox)
  // Its lock is over while it works.
  work(queue, slow, { lockDuration: 300, skipLockRenewal: true, skipStalledCheck: true })
  const job = await queue.add('place', { key: 'a' })
  await until(() => runs.length === 1)
  const stalled = Promise.withResolvers<void>()
  const taking = work(queue, other, { stalledInterval: 200, maxStalledCount: 5 })
  taking.on('stalled', () => stalled.resolve())
  await stalled.promise
  await until(async () => ((await again(queue, job)).attemptsStarted ?? 0) >= 2)
  release.resolve()
  await reaches(queue, job, 'completed')
  expect(runs).toEqual(['slow'])
})

test('jobs wait while the store is down, none fails, and a worker that closes meanwhile ends', async () => {
  const queue = freshQueue()
  const inbox = memoryInbox()
  let isDown = true
  const down = new Proxy(inbox, {
    get: (target, name, receiver) => {
      const value = Reflect.get(target, name, receiver) as unknown
      if (name !== 'open') return value
      return async (...given: unknown[]) => {
        if (isDown) throw Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' })
        return (value as (...given: unknown[]) => unknown).apply(target, given)
      }
    },
  })
  const runs: string[] = []
  const guard = guardOf(({ payload }) => void runs.push(payload.key), byPayload, down)
  const first = work(queue, guard, { concurrency: 2 })
  const jobs = await Promise.all(['a', 'b', 'c', 'd'].map((key) => queue.add('place', { key })))
  await until(async () => (await queue.getActiveCount()) === 2)
  await first.close()
  expect(await queue.getFailedCount()).toBe(0)
  isDown = false
  work(queue, guard)
  for (const job of jobs) await reaches(queue, job, 'completed')
  expect(runs.toSorted()).toEqual(['a', 'b', 'c', 'd'])
})

test('only an id that the producer gave is a message id', async () => {
  const queue = freshQueue()
  const keys: string[] = []
  const guard = guardOf(({ key }) => void keys.push(key), { eventKey: messageId() })
  work(queue, guard)
  const named = await queue.add('place', { key: 'a' }, { jobId: 'order-1' })
  const numbered = await queue.add('place', { key: 'b' })
  await reaches(queue, named, 'completed')
  await reaches(queue, numbered, 'failed')
  expect(keys).toEqual(['order-1'])
  expect((await again(queue, numbered)).failedReason).toContain('missing-event-key')
})

test('handlers are chosen by the name of the job', async () => {
  const queue = freshQueue()
  const runs: string[] = []
  const { createGuard } = await import('@onceward/core')
  const guard = createGuard({
    ...{ consumer: 'billing', inbox: memoryInbox(), logger: silent },
    eventKey: ({ payload }) => (payload as { key: string }).key,
    on: {
      place: { handler: async ({ payload }) => void runs.push(`place ${JSON.stringify(payload)}`) },
      ship: { handler: async () => void runs.push('ship') },
    },
  })
  work(queue, guard)
  const jobs = [await queue.add('place', { key: 'a' }), await queue.add('ship', { key: 'b' })]
  for (const job of jobs) await reaches(queue, job, 'completed')
  expect(runs.toSorted()).toEqual(['place {"key":"a"}', 'ship'])
})

test('a worker whose settings lose jobs is warned of once', async () => {
  const queue = freshQueue()
  const findings: string[] = []
  const logger = { ...silent, warn: (fields: object) => void findings.push(JSON.stringify(fields)) }
  const guard = guardOf(() => undefined, { ...byPayload, logger, retry: { attempts: 5 } })
  work(queue, guard, { maxStartedAttempts: 3 })
  for (const key of ['a', 'b']) await reaches(queue, await queue.add('place', { key }), 'completed')
  const found = findings.filter((each) => each.includes('maxSta'))
  expect(found).toHaveLength(2)
  expect(found[0]).toContain('maxStalledCount: 4')
})

test('messages of the outbox arrive once, under their ids, with their headers', async () => {
  const queue = freshQueue()
  const seen: unknown[] = []
  const guard = guardOf(
    ({ headers, key, payload }) =>
      void seen.push({ key, payload, kind: headers['x-kind'], type: headers['ce-type'] }),
    { eventKey: header('idempotency-key') },
  )
  const destination = bullmqDestination(queue)
  const message = (id: string, payload: string) => ({
    ...{ id, source: 'billing', type: 'mail.wanted', contentType: 'application/json' },
    ...{ headers: { 'x-kind': 'welcome' }, payload: Buffer.from(payload) },
  })
  const sent = [
    message('m-1', '{"to":"a"}'),
    message('42', '{"to":"b"}'),
    message('a:b', 'no json'),
  ]
  const { signal } = new AbortController()
  const answers = await destination.publish(sent, signal)
  expect(answers.map((answer) => Object.keys(answer ?? {}))).toEqual([[], [], ['refused']])
  // The relay did not see the answer.
  await destination.publish(sent.slice(0, 2), signal)
  expect(await queue.count()).toBe(2)
  work(queue, guard)
  await until(async () => (await queue.getCompletedCount()) === 2)
  const [first, second] = ['a', 'b'].map((to, at) => ({
    ...{ key: ['m-1', '42'][at], payload: { to }, kind: 'welcome', type: 'mail.wanted' },
  }))
  expect(seen).toEqual(expect.arrayContaining([first, second]))
})
