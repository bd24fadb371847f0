// At deployment, with a role that may create tables.
import { migrate } from '@onceward/postgres'
import { connect } from 'amqplib'
import { Pool } from 'pg'
import { databaseUrl, queue, rabbitUrl, receiptsQueue } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
await migrate(pool)
await pool.query(`
  create table if not exists accounts (id int primary key, balance bigint not null);
  insert into accounts values (1, 1000000) on conflict do nothing;
  create table if not exists charges (order_id text not null, cents int not null);
  create table if not exists receipts (order_id text not null)`)
await pool.end()

const connection = await connect(rabbitUrl)
const channel = await connection.createChannel()
for (const name of [queue, receiptsQueue]) {
  await channel.assertQueue(name)
  await channel.assertQueue(`${name}.dead`)
}
await connection.close()
console.log(`the tables are there, and the queues ${queue} and ${receiptsQueue}`)
