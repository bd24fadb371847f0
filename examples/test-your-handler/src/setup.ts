// At deployment, with a role that may create tables.
import { migrate } from '@onceward/postgres'
import { Pool } from 'pg'
import { databaseUrl } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
await migrate(pool)
await pool.query(`
  -- No unique key: a second charge of an order would show.
  create table if not exists charges (order_id text not null, cents int not null)`)
await pool.end()
console.log('the tables are there')
