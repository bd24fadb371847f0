// At deployment, with a role that may create tables.
import { migrate } from '@onceward/postgres'
import { Pool } from 'pg'
import { databaseUrl, queueUrl, receiptsUrl } from './settings.ts'

const pool = new Pool({ connectionString: databaseUrl })
await migrate(pool)
await pool.query(`
  create table if not exists accounts (id int primary key, balance bigint not null);
  insert into accounts values (1, 1000000) on conflict do nothing;
  -- No unique keys: a second charge of an order, or a second report of a tick, would show.
  create table if not exists charges (order_id text not null, cents int not null);
  create table if not exists reports (at timestamptz not null, cents int not null)`)
await pool.end()
console.log(`the tables are there, and the queues ${await queueUrl()} and ${await receiptsUrl()}`)
