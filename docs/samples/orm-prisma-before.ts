import type { PrismaClient } from './prisma/generated/client.ts'

/** Twice for an event that is delivered twice. */
export async function charge(prisma: PrismaClient, orderId: string): Promise<void> {
  await prisma.$transaction(async (tx) => {
    await tx.charge.create({ data: { orderId, cents: 100 } })
  })
}
