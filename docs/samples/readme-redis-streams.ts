import { createGuard } from '@onceward/core'
import { pgInbox } from '@onceward/postgres/pg'
import { consumeStream } from '@onceward/redis-streams'
import { Redis } from 'ioredis'

const inbox = pgInbox({ connectionString: process.env.DATABASE_URL })
const charge = 'insert into charges select * from json_populate_record(null::charges, $1)'
const billing = createGuard({ consumer: 'billing', inbox }, async ({ payload }, { tx }) => {
  await tx.query(charge, [payload])
})
await consumeStream(new Redis(), billing, { stream: 'orders' })
