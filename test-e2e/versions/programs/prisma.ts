import { migrate } from '@onceward/postgres'
import { prismaInbox } from '@onceward/postgres/prisma'
import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { env } from './env.ts'
import { type Prisma, PrismaClient } from './prisma-client.ts'
import { proveInbox } from './support.ts'

const connectionString = env('DATABASE_URL')
const pool = new pg.Pool({ connectionString, max: 2 })
await migrate(pool)
await pool.query('create table charges (order_id text, cents int)')
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) })

await proveInbox({
  inbox: prismaInbox(prisma, { connectionString }),
  write: (tx: Prisma.TransactionClient, orderId) =>
    tx.charge.create({ data: { orderId, cents: 1 } }),
  run: (tx, sql) => tx.$executeRawUnsafe(sql),
  charged: async () => {
    const rows = await prisma.charge.findMany({ orderBy: { orderId: 'asc' } })
    return rows.map(({ orderId }) => orderId).join()
  },
})
await pool.end()
console.log('proved')
// Prisma 6 never gives a connection back that was cut inside of a transaction, and would wait for it here.
process.exit()
