import { SQSClient } from '@aws-sdk/client-sqs'
import { Module } from '@nestjs/common'
import { OncewardModule, sqsBroker } from '@onceward/nestjs'
import { typeormInbox } from '@onceward/postgres/typeorm'
import { sqsDestination } from '@onceward/sqs'
import { DataSource } from 'typeorm'
import { Billing, Charge } from './nestjs-billing.ts'

const url = process.env.DATABASE_URL ?? ''
const sqs = new SQSClient()
const receipts = sqsDestination(sqs, { queueUrl: process.env.RECEIPTS_URL ?? '' })
const connect = () => new DataSource({ type: 'postgres', url, entities: [Charge] }).initialize()

@Module({ providers: [{ provide: DataSource, useFactory: connect }], exports: [DataSource] })
class DatabaseModule {}

@Module({
  imports: [
    DatabaseModule,
    OncewardModule.forRootAsync({
      imports: [DatabaseModule],
      inject: [DataSource],
      useFactory: (dataSource: DataSource) => ({
        inbox: typeormInbox(dataSource, { connectionString: url }),
        brokers: { sqs: sqsBroker(sqs) },
        relay: { destinations: { receipts } },
      }),
    }),
  ],
  providers: [Billing],
})
export class AppModule {}
