import { Inject, Injectable } from '@nestjs/common'
import { Cron } from '@nestjs/schedule'
import { OnceAt, Tick } from '@onceward/nestjs'
import { Charges } from './charges.ts'

@Injectable()
export class Reports {
  @Inject(Charges)
  private readonly charges!: Charges

  /** Every worker fires. One of them writes the report of a tick. */
  @Cron('*/10 * * * * *', { timeZone: 'UTC' })
  @OnceAt({ consumer: 'reports' })
  async write(@Tick() tick: Date): Promise<void> {
    await this.charges.report(tick, await this.charges.total())
  }
}
