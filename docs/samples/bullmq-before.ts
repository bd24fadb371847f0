import { Worker } from 'bullmq'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const connection = { url: process.env.REDIS_URL ?? '', maxRetriesPerRequest: null }
const worker = new Worker(
  'orders',
  async ({ data: { orderId, cents } }) => {
    await pool.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
    // Dies here: the job is stalled, another worker runs it, and the order is charged twice.
  },
  { connection },
)
process.once('SIGTERM', () => void worker.close().then(() => pool.end()))
