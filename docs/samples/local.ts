import { CreateQueueCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs'
import { createGuard, messageId } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeSqs } from '@onceward/sqs'
import { postgres, sqs } from '@onceward/testing'
import { Pool } from 'pg'

const [database, queues] = await Promise.all([postgres(), sqs()])
const pool = new Pool({ connectionString: database.connection.url })
await migrate(pool)
await pool.query('create table if not exists charges (body jsonb)')

const client = new SQSClient({
  endpoint: queues.connection.endpoint,
  region: 'us-east-1',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  useQueueUrlAsEndpoint: false,
})
const { QueueUrl: queueUrl = '' } = await client.send(
  new CreateQueueCommand({ QueueName: 'orders' }),
)
const options = { consumer: 'billing', inbox: pgInbox(pool), eventKey: messageId() }
const billing = createGuard(options, async ({ payload }, { tx }) => {
  await tx.query('insert into charges values ($1)', [payload])
  console.log('charged', payload)
})
const consumption = await consumeSqs(client, billing, { queueUrl })
process.once('SIGINT', () => void consumption.drain())

const order = new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: '{"cents":1999}' })
await client.send(order)

await consumption.stopped
await billing.close()
await pool.end()
for (const server of [queues, database]) await server.stop()
