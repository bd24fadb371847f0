import { Inject, Injectable } from '@nestjs/common'
import { TransactionHost } from '@nestjs-cls/transactional'
import type { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
import { FatalError } from '@onceward/core'
import { Column, Entity, PrimaryColumn } from 'typeorm'

@Entity('accounts')
export class Account {
  @PrimaryColumn('int')
  id!: number

  @Column('bigint')
  balance!: string
}

@Entity('charges')
export class Charge {
  @PrimaryColumn('text', { name: 'order_id' })
  orderId!: string

  @Column('int')
  cents!: number
}

/** An injected repository: it knows no transaction, and writes in that of the handler that called it. */
@Injectable()
export class Charges {
  @Inject(TransactionHost)
  private readonly host!: TransactionHost<TransactionalAdapterTypeOrm>

  async add(accountId: number, charge: Charge): Promise<void> {
    const { tx } = this.host
    const { affected } = await tx.decrement(Account, { id: accountId }, 'balance', charge.cents)
    // Trying again would not help: to the dead letters, at once.
    if (affected === 0) throw new FatalError(`no account ${accountId}`)
    await tx.insert(Charge, charge)
  }
}
