import { prismaInbox } from '@onceward/postgres/prisma'
import { PrismaPg } from '@prisma/adapter-pg'
import { type Prisma, PrismaClient } from '../../docs/samples/prisma/generated/client.ts'
import type { Order } from '../load/effects.ts'
import type { OrmContestant } from './contestant.ts'

const write = (tx: Prisma.TransactionClient, { orderId, cents }: Order): Promise<unknown> =>
  tx.$executeRaw`insert into effects (order_id, cents) values (${orderId}::uuid, ${cents})`

export const prismaContestant: OrmContestant = {
  name: 'prisma',
  connect: async (connectionString, max) => {
    const adapter = new PrismaPg({ connectionString, max, idleTimeoutMillis: 0 })
    const prisma = new PrismaClient({ adapter })
    return {
      inbox: prismaInbox(prisma, { connectionString, poolSize: max }),
      write: (tx, order) => write(tx as Prisma.TransactionClient, order),
      byHand: (order) =>
        prisma.$transaction(async (tx) => {
          const count =
            await tx.$executeRaw`insert into handled (id) values (${order.orderId}::uuid) on conflict do nothing`
          if (count === 1) await write(tx, order)
        }),
      close: () => prisma.$disconnect(),
    }
  },
}
