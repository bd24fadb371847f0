// At deployment, with a role that may create tables.
import { assertRetryTopology } from '@onceward/amqp'
import { migrate } from '@onceward/postgres'
import { connect } from 'amqplib'
import { Pool } from 'pg'
import { databaseUrl, queue, rabbitUrl } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
await migrate(pool)
await pool.query(`
  create table if not exists accounts (id int primary key, balance bigint not null);
  insert into accounts values (1, 1000000) on conflict do nothing;
  -- No unique key: a second charge of an order would show.
  create table if not exists charges (order_id text not null, cents int not null)`)
await pool.end()

const connection = await connect(rabbitUrl)
const channel = await connection.createChannel()
await channel.assertQueue(queue)
await channel.assertQueue(`${queue}.dead`)
// Where an order waits for its next try, without holding a place in the prefetch.
await assertRetryTopology(channel, queue, [1_000, 5_000, 30_000, 120_000, 300_000])
await connection.close()
console.log(`the tables are there, and the queues ${queue} and ${queue}.dead`)
