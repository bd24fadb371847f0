// @module-tag nightly

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { toDelivery } from '@onceward/core/memory'
import type { LambdaSqsHandler } from '@onceward/lambda'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { database } from '@onceward/testing'
import { Pool } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createBilling } from '../../../docs/samples/lambda-envelopes.ts'

let pool: Pool
beforeAll(async () => {
  const { url } = await database()
  process.env['DATABASE_URL'] = url
  pool = new Pool({ connectionString: url, max: 3 })
  await migrate(pool)
  await pool.query('create table charges (order_id text, cents int)')
})
afterAll(() => pool.end())

const charged = async (): Promise<unknown> =>
  (await pool.query('delete from charges returning order_id, cents')).rows

const event = {
  Records: ['m1', 'm2'].map((messageId) => ({
    messageId,
    receiptHandle: messageId,
    body: JSON.stringify({ order_id: 'o-1', cents: 500 }),
    attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1763805600000' },
    messageAttributes: { 'idempotency-key': { dataType: 'String', stringValue: 'o-1' } },
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:orders',
  })),
}

test('the function of the documents has ten lines and charges an order that comes twice once', async () => {
  const file = join(import.meta.dirname, '../../../docs/samples/lambda-sqs.ts')
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line.trim() !== '')
  expect(lines.length).toBe(10)
  const { handler }: { handler: LambdaSqsHandler } = await import(
    '../../../docs/samples/lambda-sqs.ts'
  )
  for (let time = 0; time < 2; time++) {
    expect(await handler(event)).toEqual({ batchItemFailures: [] })
  }
  expect(await charged()).toEqual([{ order_id: 'o-1', cents: 500 }])
})

test('the function without a guard charges it twice', async () => {
  const { handler } = await import('../../../docs/samples/lambda-before.ts')
  await handler(event as never)
  expect(await charged()).toHaveLength(2)
})

test('the guard for messages of SNS charges once, and skips the test event of S3', async () => {
  const guard = createBilling(pgInbox(pool))
  const envelope = {
    ...{ Type: 'Notification', MessageId: 'sns-1', TopicArn: 'arn:aws:sns:r:1:t' },
    Message: '{"orderId":"o-2"}',
  }
  const settled = await guard.processBatch([
    toDelivery(envelope, { headers: {} }),
    toDelivery(envelope, { headers: {} }),
    toDelivery({ Service: 'Amazon S3', Event: 's3:TestEvent' }, { headers: {} }),
  ])
  expect(settled).toMatchObject([{ by: 'processed' }, { by: 'duplicate' }, { by: 'skipped' }])
  await guard.close()
  expect(await charged()).toEqual([{ order_id: 'o-2', cents: 1 }])
})
