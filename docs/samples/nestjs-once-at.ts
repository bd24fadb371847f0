import { Injectable } from '@nestjs/common'
import { Cron } from '@nestjs/schedule'
import { OnceAt, Tick, Tx } from '@onceward/nestjs'
import type { EntityManager } from 'typeorm'

@Injectable()
export class Reports {
  @Cron('0 3 * * *', { timeZone: 'UTC' })
  @OnceAt({ consumer: 'nightly-report', deadlineMs: 600_000 })
  async write(@Tick() tick: Date, @Tx() tx: EntityManager): Promise<void> {
    await tx.query(
      'insert into reports (day, cents) select $1, coalesce(sum(cents), 0) from charges',
      [tick],
    )
  }
}
