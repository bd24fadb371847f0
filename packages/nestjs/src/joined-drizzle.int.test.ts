import 'reflect-metadata'
import { Inject, Injectable, Module } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import {
  ClsPluginTransactional,
  Propagation,
  Transactional,
  TransactionHost,
} from '@nestjs-cls/transactional'
import { TransactionalAdapterDrizzleOrm } from '@nestjs-cls/transactional-adapter-drizzle-orm'
import type { GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { drizzleInbox } from '@onceward/postgres/drizzle'
import { database } from '@onceward/testing'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { ClsModule } from 'nestjs-cls'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import {
  Consume,
  Event,
  joinCls,
  joined,
  OncewardConsumers,
  OncewardModule,
  sqsBroker,
} from './index.ts'

const DRIZZLE = Symbol('drizzle')
const charges = pgTable('charges', { orderId: text('order_id'), by: text('by') })
const brokers = { sqs: sqsBroker({ send: () => Promise.reject(new Error('not called')) } as never) }

/** An injected repository: it knows no `tx`. */
@Injectable()
class Charges {
  @Inject(TransactionHost)
  private readonly host!: { readonly tx: NodePgDatabase }

  async write(orderId: string, by: string): Promise<void> {
    await this.host.tx.insert(charges).values({ orderId, by })
  }
  @Transactional(Propagation.Nested)
  async nested(orderId: string): Promise<void> {
    await this.write(orderId, 'nested')
    throw new Error('only the savepoint')
  }
  @Transactional(Propagation.RequiresNew)
  async apart(orderId: string): Promise<void> {
    await this.write(orderId, 'apart')
  }
}

@Injectable()
class Billing {
  @Inject(Charges)
  private readonly charges!: Charges

  @Consume('sqs', {
    ...{ consumer: 'billing', queueUrl: 'http://127.0.0.1:1/1/a', retry: { baseMs: 0 } },
    eventKey: ({ payload }) => (payload as { orderId: string }).orderId,
  })
  async charge(@Event() { attempt, payload }: GuardEvent<{ orderId: string }>): Promise<void> {
    await this.charges.write(payload.orderId, 'handler')
    await this.charges.nested(payload.orderId).catch(() => undefined)
    await this.charges.apart(payload.orderId)
    if (attempt === 1) throw new Error('not yet')
  }
}

test('what a repository of Drizzle writes is rolled back with the handler, and committed with it', async () => {
  const { url } = await database()
  const pool = new Pool({ connectionString: url, max: 4 })
  await migrate(pool)
  await pool.query('create table charges (order_id text, by text)')
  const db = drizzle(pool)
  @Module({ providers: [{ provide: DRIZZLE, useValue: db }], exports: [DRIZZLE] })
  class DatabaseModule {}
  const plugin = new ClsPluginTransactional({
    imports: [DatabaseModule],
    adapter: joined(new TransactionalAdapterDrizzleOrm({ drizzleInstanceToken: DRIZZLE })),
  })
  const inbox = drizzleInbox(db, { connectionString: url })
  const module = await Test.createTestingModule({
    imports: [
      ...[DatabaseModule, ClsModule.forRoot({ plugins: [plugin] })],
      OncewardModule.forRoot({ inbox, brokers, join: [joinCls()], consume: false }),
    ],
    providers: [Billing, Charges],
  }).compile()
  await module.init()
  const [first, second] = await module
    .get(OncewardConsumers)
    .get('billing')
    .deliverTwice({ orderId: 'o-1' })
  await module.close()

  expect([first, second]).toMatchObject([{ kind: 'defer' }, { kind: 'ack', by: 'processed' }])
  const { rows } = await pool.query('select by from charges order by by')
  // Its own transaction, whose row stays from each attempt.
  expect(rows.map(({ by }) => by)).toEqual(['apart', 'apart', 'handler'])
  await pool.end()
})
