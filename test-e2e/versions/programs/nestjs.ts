import 'reflect-metadata'
import assert from 'node:assert/strict'
import { Controller, Injectable, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { EventPattern, Payload } from '@nestjs/microservices'
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule'
import { type Consumption, FatalError, type GuardEvent } from '@onceward/core'
import {
  type Broker,
  Consume,
  Event,
  OnceAt,
  OncewardConsumers,
  OncewardModule,
  OncewardStrategy,
  Tick,
  Tx,
} from '@onceward/nestjs'
import { migrate } from '@onceward/postgres'
import { pgInbox } from '@onceward/postgres/pg'
import pg from 'pg'
import { env } from './env.ts'

// Node runs this file as it is and knows no decorators, so they are called.

interface Order {
  readonly orderId: string
}

const pool = new pg.Pool({ connectionString: env('DATABASE_URL'), max: 6 })
await migrate(pool)
await pool.query('create table charges (order_id text, by text)')
const inbox = pgInbox(pool)

const told: string[] = []
/** Brings nothing: the program delivers by itself. */
const silent: Broker<object> = {
  consume: async () => {
    told.push('started')
    const drain = async (): Promise<void> => void told.push('drained')
    return {
      ...{ stopped: Promise.resolve(), drain, [Symbol.asyncDispose]: drain },
      health: () => ({ state: 'running', inFlight: 0, settleFailures: 0 }),
    } satisfies Consumption
  },
}

async function charge({ orderId }: Order, tx: pg.PoolClient, by: string): Promise<void> {
  await tx.query('insert into charges values ($1, $2)', [orderId, by])
  if (orderId === 'fatal') throw new FatalError('no such order')
}

class Billing {
  consume({ payload }: GuardEvent<Order>, tx: pg.PoolClient): Promise<void> {
    return charge(payload, tx, 'consume')
  }
}
class Orders {
  placed(order: Order, tx: pg.PoolClient): Promise<void> {
    return charge(order, tx, 'placed')
  }
}
const descriptorOf = (of: object, key: string): PropertyDescriptor =>
  Object.getOwnPropertyDescriptor(of, key) as PropertyDescriptor
Injectable()(Billing)
Event()(Billing.prototype, 'consume', 0)
Tx()(Billing.prototype, 'consume', 1)
const consume = Consume('silent', { consumer: 'billing', queue: 'orders' })
consume(Billing.prototype, 'consume', descriptorOf(Billing.prototype, 'consume'))
Controller()(Orders)
Payload()(Orders.prototype, 'placed', 0)
Tx()(Orders.prototype, 'placed', 1)
const onPlaced = EventPattern('order.placed') as MethodDecorator
onPlaced(Orders.prototype, 'placed', descriptorOf(Orders.prototype, 'placed'))

class Reports {
  async write(tick: Date, tx: pg.PoolClient): Promise<void> {
    await tx.query('insert into charges values ($1, $2)', [tick.toISOString(), 'cron'])
  }
}
Injectable()(Reports)
Tick()(Reports.prototype, 'write', 0)
Tx()(Reports.prototype, 'write', 1)
const write = descriptorOf(Reports.prototype, 'write')
OnceAt({ consumer: 'reports', dedupWindowMs: 366 * 24 * 3_600_000 })(
  Reports.prototype,
  'write',
  write,
)
Cron('0 0 1 1 *', { name: 'reports', timeZone: 'UTC' })(Reports.prototype, 'write', write)

class AppModule {}
Module({
  imports: [ScheduleModule.forRoot(), OncewardModule.forRoot({ inbox, brokers: { silent } })],
  providers: [Billing, Reports],
  controllers: [Orders],
})(AppModule)

const strategy = new OncewardStrategy<object>({
  ...{ broker: silent, place: {}, consumer: 'orders', inbox },
})
const app = await NestFactory.createMicroservice(AppModule, { strategy, logger: false })
await app.listen()
assert.deepEqual(told, ['started', 'started'])

const consumers = app.get(OncewardConsumers)
const overrides = { headers: { 'idempotency-key': 'o-1', pattern: 'order.placed' } }
for (const name of ['billing', 'orders']) {
  const [first, second] = await consumers.get(name).deliverTwice({ orderId: 'o-1' }, overrides)
  assert.deepEqual([first.kind, second.kind], ['ack', 'ack'])
  const fatal = { headers: { ...overrides.headers, 'idempotency-key': 'o-2' } }
  const dead = await consumers.get(name).deliver({ orderId: 'fatal' }, fatal)
  assert.equal(dead.kind === 'dead-letter' && dead.reason, 'fatal')
}
const job = app.get(SchedulerRegistry).getCronJob('reports')
await Promise.all([
  job.fireOnTick(),
  app.get(Reports).write(...([] as unknown as Parameters<Reports['write']>)),
])
const { rows } = await pool.query('select order_id, by from charges order by by')
assert.deepEqual(rows, [
  { order_id: 'o-1', by: 'consume' },
  { order_id: `${new Date().getUTCFullYear()}-01-01T00:00:00.000Z`, by: 'cron' },
  { order_id: 'o-1', by: 'placed' },
])
await app.close()
assert.deepEqual(told, ['started', 'started', 'drained', 'drained'])
await pool.end()
console.log('proved')
