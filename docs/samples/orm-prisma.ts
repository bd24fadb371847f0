import { createGuard, type Guard } from '@onceward/core'
import { prismaInbox } from '@onceward/postgres/prisma'
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from './prisma/generated/client.ts'

const connectionString = process.env.DATABASE_URL ?? ''
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString, max: 10 }) })

export const billing: Guard = createGuard(
  { consumer: 'billing', inbox: prismaInbox(prisma, { connectionString, poolSize: 10 }) },
  async ({ key }, { tx }) => {
    await tx.charge.create({ data: { orderId: key, cents: 100 } })
  },
)
