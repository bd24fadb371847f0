import { Inject, Module, type OnModuleDestroy } from '@nestjs/common'
import { ScheduleModule } from '@nestjs/schedule'
import { ClsPluginTransactional } from '@nestjs-cls/transactional'
import { TransactionalAdapterPrisma } from '@nestjs-cls/transactional-adapter-prisma'
import { joinCls, joined, OncewardModule, sqsBroker } from '@onceward/nestjs'
import { prismaInbox } from '@onceward/postgres/prisma'
import { sqsDestination } from '@onceward/sqs'
import { PrismaPg } from '@prisma/adapter-pg'
import { ClsModule } from 'nestjs-cls'
import { Billing } from './billing.ts'
import { Charges } from './charges.ts'
import { PrismaClient } from './generated/client.ts'
import { Reports } from './reports.ts'
import { databaseUrl, receiptsUrl, sqs } from './settings.ts'

const POOL_SIZE = 10
async function connect(): Promise<PrismaClient> {
  const adapter = new PrismaPg({ connectionString: databaseUrl, max: POOL_SIZE })
  const prisma = new PrismaClient({ adapter })
  await prisma.$connect()
  return prisma
}

@Module({ providers: [{ provide: PrismaClient, useFactory: connect }], exports: [PrismaClient] })
class DatabaseModule implements OnModuleDestroy {
  @Inject(PrismaClient)
  private readonly prisma!: PrismaClient

  async onModuleDestroy(): Promise<void> {
    await this.prisma.$disconnect()
  }
}

/** Keeps the transaction of the handler, where repositories find it. */
const transactions = new ClsPluginTransactional({
  imports: [DatabaseModule],
  adapter: joined(new TransactionalAdapterPrisma({ prismaInjectionToken: PrismaClient })),
})

const onceward = OncewardModule.forRootAsync({
  // It ends after the consumers have drained.
  imports: [DatabaseModule],
  inject: [PrismaClient],
  useFactory: async (prisma: PrismaClient) => ({
    inbox: prismaInbox(prisma, { connectionString: databaseUrl, poolSize: POOL_SIZE }),
    join: [joinCls()],
    brokers: { sqs: sqsBroker(sqs) },
    relay: { destinations: { receipts: sqsDestination(sqs, { queueUrl: await receiptsUrl() }) } },
  }),
})

@Module({
  imports: [
    ...[DatabaseModule, ScheduleModule.forRoot()],
    ...[ClsModule.forRoot({ plugins: [transactions] }), onceward],
  ],
  providers: [Billing, Charges, Reports],
})
export class AppModule {}
