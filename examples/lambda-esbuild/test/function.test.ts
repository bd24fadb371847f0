import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda'
import { Pool } from 'pg'
import { databaseUrl } from '../src/settings.ts'

type Handler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>

const pool = new Pool({ connectionString: databaseUrl })

before(() => {
  execFileSync(process.execPath, ['src/setup.ts'])
})
after(() => pool.end())

const context = { getRemainingTimeInMillis: () => 30_000 } as Context

/** A message as the event source mapping of SQS puts it into an event. */
const message = (body: unknown): SQSRecord => ({
  messageId: randomUUID(),
  receiptHandle: randomUUID(),
  body: JSON.stringify(body),
  attributes: {
    ApproximateReceiveCount: '1',
    SentTimestamp: String(Date.now()),
    SenderId: 'AIDATEST',
    ApproximateFirstReceiveTimestamp: String(Date.now()),
  },
  messageAttributes: {},
  md5OfBody: '',
  eventSource: 'aws:sqs',
  eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:orders',
  awsRegion: 'eu-central-1',
})

test('the bundle charges an order once that comes in two batches, and reports what failed', async () => {
  // The bundle is tested, because it is what gets deployed.
  const bundle: string = '../dist/function.mjs'
  const { handler } = (await import(bundle)) as { handler: Handler }
  const order = { orderId: randomUUID(), cents: 1999 }
  // More than the column holds: the handler fails, and the message comes again.
  const failing = message({ orderId: randomUUID(), cents: 3_000_000_000 })

  const first = await handler({ Records: [message(order), failing] }, context)
  const second = await handler({ Records: [message(order)] }, context)

  assert.deepEqual(first, { batchItemFailures: [{ itemIdentifier: failing.messageId }] })
  assert.deepEqual(second, { batchItemFailures: [] })
  const text = 'select from charges where order_id = $1'
  assert.equal((await pool.query(text, [order.orderId])).rows.length, 1)
})
