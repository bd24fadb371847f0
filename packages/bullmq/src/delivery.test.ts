import { createGuard } from '@onceward/core'
import { copyDelivery } from '@onceward/core/adapter'
import { memoryInbox } from '@onceward/core/memory'
import { silent } from '@onceward/testing/conformance'
import { expect, test } from 'vitest'
import type { JobLike } from './client.ts'
import { bullmqJob, toDelivery } from './delivery.ts'

const job = (over: Partial<JobLike> = {}): JobLike => ({
  ...{ id: '7', name: 'place', data: { n: 1 }, opts: {}, timestamp: 1_700_000_000_000 },
  ...{ queueName: 'orders', attemptsStarted: 1, stalledCounter: 0 },
  moveToDelayed: async () => undefined,
  ...over,
})

test('the body is the data, and the place is of this job alone', () => {
  const { body, headers, messageId, redelivered, source } = toDelivery(job())
  expect(Buffer.from(body).toString()).toBe('{"n":1}')
  expect({ headers, messageId, redelivered }).toEqual({ headers: {}, redelivered: false })
  expect(source).toEqual({ broker: 'bullmq', queue: 'orders', position: '1700000000000-7' })
  // A number is given again once the queue was emptied.
  expect(toDelivery(job({ timestamp: 1_800_000_000_000 })).source.position).not.toBe(
    source.position,
  )
})

test.each<readonly [what: string, over: Partial<JobLike>, is: object]>([
  ['that was started before is a redelivery', { attemptsStarted: 2 }, { redelivered: true }],
  ['whose worker lost it is a redelivery', { stalledCounter: 1 }, { redelivered: true }],
  [
    'of a worker that does not count is a redelivery',
    { attemptsStarted: 0 },
    { redelivered: true },
  ],
  ['without data has a body', { data: undefined }, { body: Buffer.from('null') }],
  ['with an id of its producer has a message id', { id: 'order-1' }, { messageId: 'order-1' }],
  [
    'with a trace of BullMQ has its headers',
    { opts: { telemetry: { metadata: '{"traceparent":"00-1-2-01","n":1}' } } },
    { headers: { traceparent: '00-1-2-01' } },
  ],
  ['with other metadata has none', { opts: { telemetry: { metadata: '{' } } }, { headers: {} }],
  ['with a wrong time has none', { timestamp: Number.NaN }, { producedAt: undefined }],
])('a job %s', (_, over, is) => {
  expect(toDelivery(job(over))).toMatchObject(is)
})

// Red when the name of the job is not stored: a replayed event would find no handler in `on`.
test('a stored job has its name and its data again', async () => {
  const { raw, ...stored } = copyDelivery(toDelivery(job()), {})
  expect(raw).toBeDefined()
  expect(bullmqJob(stored)).toMatchObject({ id: '7', name: 'place', data: { n: 1 }, opts: {} })
  const types: unknown[] = []
  const place = {
    handler: async ({ type }: { readonly type?: string | undefined }) => void types.push(type),
  }
  const guard = createGuard({
    ...{ consumer: 'billing', inbox: memoryInbox(), logger: silent, eventKey: () => 'a' },
    on: { place },
  })
  expect(await guard.process({ ...stored, raw: bullmqJob(stored) })).toMatchObject({ kind: 'ack' })
  expect(types).toEqual(['place'])
  await guard.close()
})

test('a delivery of another broker has no job', () => {
  const { source, ...rest } = toDelivery(job())
  expect(bullmqJob({ ...rest, source: { ...source, broker: 'sqs' } })).toBeUndefined()
})
