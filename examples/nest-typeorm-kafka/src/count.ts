import { Pool } from 'pg'
import { databaseUrl } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
const { rows } = await pool.query<{ orders: string; charges: string }>(
  'select count(distinct order_id) as orders, count(*) as charges from charges',
)
console.log(`${rows[0]?.orders} orders have ${rows[0]?.charges} charges`)
await pool.end()
