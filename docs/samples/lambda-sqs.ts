import { createGuard } from '@onceward/core'
import { type LambdaSqsHandler, lambdaSqs } from '@onceward/lambda'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool } from 'pg'

const charge = 'insert into charges select * from json_populate_record(null::charges, $1)'
const inbox = pgInbox(new Pool({ connectionString: process.env.DATABASE_URL, max: 2 }))
const billing = createGuard({ consumer: 'billing', inbox }, async ({ payload }, { tx }) => {
  await tx.query(charge, [payload])
})
export const handler: LambdaSqsHandler = lambdaSqs(billing)
