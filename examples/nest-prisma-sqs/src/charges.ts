import { Inject, Injectable } from '@nestjs/common'
import { TransactionHost } from '@nestjs-cls/transactional'
import type { TransactionalAdapterPrisma } from '@nestjs-cls/transactional-adapter-prisma'
import { FatalError } from '@onceward/core'
import type { PrismaClient } from './generated/client.ts'

interface Charge {
  readonly orderId: string
  readonly cents: number
}

/** An injected repository: it knows no transaction, and writes in that of the handler that called it. */
@Injectable()
export class Charges {
  @Inject(TransactionHost)
  private readonly host!: TransactionHost<TransactionalAdapterPrisma<PrismaClient>>

  async add(accountId: number, charge: Charge): Promise<void> {
    const { tx } = this.host
    const { count } = await tx.account.updateMany({
      where: { id: accountId },
      data: { balance: { decrement: charge.cents } },
    })
    // Trying again would not help: to the dead letters, at once.
    if (count === 0) throw new FatalError(`no account ${accountId}`)
    await tx.charge.create({ data: charge })
  }

  async total(): Promise<number> {
    const { _sum } = await this.host.tx.charge.aggregate({ _sum: { cents: true } })
    return _sum.cents ?? 0
  }

  async report(at: Date, cents: number): Promise<void> {
    await this.host.tx.report.create({ data: { at, cents } })
  }
}
