/*
 * A service of NestJS with a cron job that fires every three seconds, and whose handler writes a row for each tick.
 */
import 'reflect-metadata'
import { rmdirSync } from 'node:fs'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule'
import { OnceAt, OncewardModule, Tick, Tx } from '@onceward/nestjs'
import { pgInbox } from '@onceward/postgres/pg'
import { Pool, type PoolClient } from 'pg'
import type { TickingConfig, Told } from './protocol.ts'

const { directory, url } = JSON.parse(process.argv[2] ?? '{}') as TickingConfig
const tell = (told: Told): void => void process.send?.(told)
const pool = new Pool({ connectionString: url })

function isFirst(): boolean {
  try {
    rmdirSync(directory)
    return true
  } catch {
    return false
  }
}

// Node runs this file as it is and knows no decorators, so they are called.
class Reports {
  async write(tick: Date, tx: PoolClient): Promise<void> {
    await tx.query('insert into reports (tick, pid) values ($1, $2)', [tick, process.pid])
    if (!isFirst()) return
    tell({ kind: 'stuck', tick: tick.toISOString() })
    await new Promise(() => undefined)
  }
}
const { prototype } = Reports
Tick()(prototype, 'write', 0)
Tx()(prototype, 'write', 1)
const descriptor = Object.getOwnPropertyDescriptor(prototype, 'write') as PropertyDescriptor
OnceAt({ consumer: 'reports' })(prototype, 'write', descriptor)
Cron('*/3 * * * * *', { name: 'reports' })(prototype, 'write', descriptor)

class AppModule {}
Module({
  imports: [ScheduleModule.forRoot(), OncewardModule.forRoot({ inbox: pgInbox(pool) })],
  providers: [Reports],
})(AppModule)

const app = await NestFactory.createApplicationContext(AppModule, { logger: false })
app.enableShutdownHooks(['SIGTERM'])
const job = app.get(SchedulerRegistry).getCronJob('reports')
job.addCallback(() => {
  const tickMs = Math.floor(Date.now() / 3_000) * 3_000
  tell({ kind: 'fired', tick: new Date(tickMs).toISOString() })
})
