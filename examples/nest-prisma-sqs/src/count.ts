import { Pool } from 'pg'
import { databaseUrl } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
const { rows } = await pool.query<Record<'orders' | 'charges' | 'ticks' | 'reports', string>>(
  `select (select count(distinct order_id) from charges) as orders,
    (select count(*) from charges) as charges,
    (select count(distinct at) from reports) as ticks, (select count(*) from reports) as reports`,
)
const [row] = rows
console.log(`${row?.orders} orders have ${row?.charges} charges`)
console.log(`${row?.ticks} ticks have ${row?.reports} reports`)
await pool.end()
