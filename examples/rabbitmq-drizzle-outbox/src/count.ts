import { Pool } from 'pg'
import { databaseUrl } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
const { rows } = await pool.query<{ orders: string; charges: string; receipts: string }>(
  `select count(distinct order_id) as orders, count(*) as charges,
     (select count(*) from receipts) as receipts from charges`,
)
console.log(
  `${rows[0]?.orders} orders have ${rows[0]?.charges} charges and ${rows[0]?.receipts} receipts`,
)
await pool.end()
