// At deployment, with a role that may create tables.
import { migrate } from '@onceward/postgres'
import { Pool } from 'pg'
import { databaseUrl, kafka, receipts, topic } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
await migrate(pool)
await pool.query(`
  create table if not exists accounts (id int primary key, balance bigint not null);
  insert into accounts values (1, 1000000) on conflict do nothing;
  -- No unique key: a second charge of an order would show.
  create table if not exists charges (order_id text not null, cents int not null)`)
await pool.end()

const admin = kafka.admin()
await admin.connect()
await admin.createTopics({
  topics: [topic, receipts].map((name) => ({ topic: name, numPartitions: 4 })),
})
await admin.disconnect()
console.log(`the tables are there, and the topics ${topic} and ${receipts}`)
