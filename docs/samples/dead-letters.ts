import { deadLetters } from '@onceward/postgres'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const letters = deadLetters(pool, { by: 'alice' })

for await (const { id, reason, attempts, key, error } of letters.list({ consumer: 'billing' })) {
  console.log({ id, reason, attempts, key, error })
}

const replayed = await letters.replay({ consumer: 'billing', reason: 'attempts-spent' })
console.log(`${replayed.done.length} will run again`)
for (const { id, why } of replayed.untouched) console.log(`${id} was left as it is: ${why}`)

await letters.discard({ consumer: 'billing', reason: 'invalid-payload' }, 'test data of a producer')
await pool.end()
