import { SQSClient } from '@aws-sdk/client-sqs'
import { pgInbox } from '@onceward/postgres/pg'
import { wrapSqs } from '@onceward/sqs'
import { Pool } from 'pg'
import { Consumer } from 'sqs-consumer'
import { createBilling } from './billing.ts'

const queueUrl = process.env.QUEUE_URL ?? ''
const sqs = new SQSClient()
const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const billing = createBilling(pgInbox(pool))
const consumer = Consumer.create({
  queueUrl,
  sqs,
  batchSize: 10,
  waitTimeSeconds: 5,
  visibilityTimeout: 33,
  messageSystemAttributeNames: ['All'],
  messageAttributeNames: ['All'],
  pollingCompleteWaitTimeMs: 30_000,
  handleMessageBatch: wrapSqs(sqs, billing, { queueUrl }),
})
consumer.on('error', (error) => console.error(error))
process.once('SIGTERM', () => consumer.stop())
consumer.start()
await new Promise((resolve) => consumer.once('stopped', () => resolve(undefined)))
await billing.close()
await pool.end()
