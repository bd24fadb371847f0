import { SQSClient } from '@aws-sdk/client-sqs'
import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeSqs } from '@onceward/sqs'

const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const charge = 'insert into charges select * from json_populate_record(null::charges, $1)'
const billing = createGuard({ consumer: 'billing', inbox }, async ({ payload }, { tx }) => {
  await tx.query(charge, [payload])
})
await consumeSqs(new SQSClient(), billing, { queueUrl: process.env.QUEUE_URL ?? '' })
