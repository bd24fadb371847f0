import { connect } from '@nats-io/transport-node'
import { createGuard } from '@onceward/core'
import { consumeNats } from '@onceward/nats'
import { pgInbox } from '@onceward/postgres/pg'

const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const charge = 'insert into charges select * from json_populate_record(null::charges, $1)'
const billing = createGuard({ consumer: 'billing', inbox }, async ({ payload }, { tx }) => {
  await tx.query(charge, [payload])
})
const connection = await connect({ maxReconnectAttempts: -1 })
await consumeNats(connection, billing, { stream: 'ORDERS', consumer: 'billing' })
