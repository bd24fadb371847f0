import { migrate } from '@onceward/postgres'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env.DATABASE_URL })
const { applied, version } = await migrate(pool)
console.log(`tables of onceward: version ${version}, applied now: ${applied.join(', ') || 'none'}`)
await pool.end()
