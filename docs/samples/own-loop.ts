import { ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs'
import { pgInbox } from '@onceward/postgres/pg'
import { receiveAttributes, wrapSqs } from '@onceward/sqs'
import { Pool } from 'pg'
import { createBilling } from './billing.ts'

const queueUrl = process.env.QUEUE_URL ?? ''
const sqs = new SQSClient()
const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createBilling(pgInbox(pool))
const handle = wrapSqs(sqs, billing, { queueUrl })

const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
while (!stop.signal.aborted) {
  const { Messages } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 5,
      VisibilityTimeout: 33,
      ...receiveAttributes,
    }),
  )
  await handle(Messages)
}
await billing.close()
await pool.end()
