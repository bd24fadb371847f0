import { type DynamicModule, Inject, Injectable, type Type } from '@nestjs/common'
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional'
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
import { joined } from '@onceward/nestjs'
import { ClsModule } from 'nestjs-cls'
import { DataSource } from 'typeorm'

@Injectable()
export class Charges {
  @Inject(TransactionHost)
  private readonly host!: TransactionHost<TransactionalAdapterTypeOrm>

  async save(charge: object): Promise<void> {
    await this.host.tx.getRepository('Charge').insert(charge)
  }
}

export const transactions = (databaseModule: Type): DynamicModule =>
  ClsModule.forRoot({
    plugins: [
      new ClsPluginTransactional({
        imports: [databaseModule],
        adapter: joined(new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource })),
      }),
    ],
  })
