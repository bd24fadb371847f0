import { Inject, Module, type OnModuleDestroy } from '@nestjs/common'
import { ClsPluginTransactional } from '@nestjs-cls/transactional'
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
import { kafkaDestination } from '@onceward/kafka'
import { joinCls, joined, kafkaBroker, OncewardModule } from '@onceward/nestjs'
import { typeormInbox } from '@onceward/postgres/typeorm'
import { ClsModule } from 'nestjs-cls'
import { DataSource } from 'typeorm'
import { Billing } from './billing.ts'
import { Account, Charge, Charges } from './charges.ts'
import { databaseUrl, kafka, receipts } from './settings.ts'

const entities = [Account, Charge]
const connect = () => new DataSource({ type: 'postgres', url: databaseUrl, entities }).initialize()

@Module({ providers: [{ provide: DataSource, useFactory: connect }], exports: [DataSource] })
class DatabaseModule implements OnModuleDestroy {
  @Inject(DataSource)
  private readonly dataSource!: DataSource

  async onModuleDestroy(): Promise<void> {
    await this.dataSource.destroy()
  }
}

/** Keeps the transaction of the handler, where repositories find it. */
const transactions = new ClsPluginTransactional({
  imports: [DatabaseModule],
  adapter: joined(new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource })),
})

const onceward = OncewardModule.forRootAsync({
  // It ends after the consumers have drained.
  imports: [DatabaseModule],
  inject: [DataSource],
  useFactory: async (dataSource: DataSource) => {
    const producer = kafka.producer()
    await producer.connect()
    return {
      inbox: typeormInbox(dataSource, { connectionString: databaseUrl }),
      join: [joinCls()],
      brokers: {
        // Kafka gives the partitions of a killed worker to the next one after this time. The default is 30 s.
        kafka: kafkaBroker(kafka, { consumer: { sessionTimeout: 10_000 } }),
      },
      relay: { destinations: { receipts: kafkaDestination(producer, { topic: receipts }) } },
    }
  },
})

@Module({
  imports: [DatabaseModule, ClsModule.forRoot({ plugins: [transactions] }), onceward],
  providers: [Billing, Charges],
})
export class AppModule {}
