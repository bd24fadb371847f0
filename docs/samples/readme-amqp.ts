import { consumeAmqp } from '@onceward/amqp'
import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { connect } from 'amqplib'

const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const charge = 'insert into charges select * from json_populate_record(null::charges, $1)'
const billing = createGuard({ consumer: 'billing', inbox }, async ({ payload }, { tx }) => {
  await tx.query(charge, [payload])
})
await consumeAmqp(() => connect(process.env.RABBITMQ_URL ?? ''), billing, { queue: 'orders' })
