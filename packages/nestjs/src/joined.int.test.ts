import 'reflect-metadata'
import { Inject, Injectable, Module } from '@nestjs/common'
import { Test } from '@nestjs/testing'
import {
  ClsPluginTransactional,
  Propagation,
  Transactional,
  TransactionHost,
} from '@nestjs-cls/transactional'
import { TransactionalAdapterTypeOrm } from '@nestjs-cls/transactional-adapter-typeorm'
import type { GuardEvent } from '@onceward/core'
import { migrate } from '@onceward/postgres'
import { typeormInbox } from '@onceward/postgres/typeorm'
import { database } from '@onceward/testing'
import { ClsModule } from 'nestjs-cls'
import pg from 'pg'
import { DataSource, EntitySchema, type Repository } from 'typeorm'
import {
  addTransactionalDataSource,
  initializeTransactionalContext,
  runInTransaction,
} from 'typeorm-transactional'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  Consume,
  Event,
  type Join,
  joinCls,
  joined,
  joinTypeormTransactional,
  OncewardConsumers,
  OncewardModule,
  sqsBroker,
} from './index.ts'

const Charge = new EntitySchema<{ orderId: string; by: string }>({
  name: 'Charge',
  tableName: 'charges',
  columns: {
    orderId: { type: 'text', primary: true, name: 'order_id' },
    by: { type: 'text', primary: true },
  },
})

let url: string
let pool: pg.Pool
let dataSource: DataSource
const brokers = { sqs: sqsBroker({ send: () => Promise.reject(new Error('not called')) } as never) }

beforeAll(async () => {
  url = (await database()).url
  pool = new pg.Pool({ connectionString: url, max: 2 })
  await migrate(pool)
  await pool.query('create table charges (order_id text, by text)')
  // For the whole process, as the library wants it.
  initializeTransactionalContext()
  dataSource = new DataSource({ type: 'postgres', url, entities: [Charge] })
  addTransactionalDataSource(dataSource)
  await dataSource.initialize()
})
afterAll(async () => {
  await dataSource.destroy()
  await pool.end()
})

@Module({
  providers: [{ provide: DataSource, useFactory: () => dataSource }],
  exports: [DataSource],
})
class DatabaseModule {}

/** Writes with what it was injected, and knows no `tx`. */
interface Writing {
  write(orderId: string, by: string): Promise<unknown>
  nested(orderId: string): Promise<unknown>
  apart(orderId: string): Promise<unknown>
}
const WRITING = Symbol('writing')

@Injectable()
class ByCls implements Writing {
  readonly host: TransactionHost<TransactionalAdapterTypeOrm>
  constructor(@Inject(TransactionHost) host: TransactionHost<TransactionalAdapterTypeOrm>) {
    this.host = host
  }
  async write(orderId: string, by: string): Promise<void> {
    await this.host.tx.getRepository(Charge).insert({ orderId, by })
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
class ByTypeormTransactional implements Writing {
  readonly repository: Repository<{ orderId: string; by: string }>
  constructor(@Inject(DataSource) source: DataSource) {
    this.repository = source.getRepository(Charge)
  }
  write(orderId: string, by: string): Promise<unknown> {
    return runInTransaction(() => this.repository.insert({ orderId, by }))
  }
  async nested(): Promise<void> {
    throw new Error('only the savepoint')
  }
  apart(orderId: string): Promise<unknown> {
    return runInTransaction(() => this.repository.insert({ orderId, by: 'apart' }), {
      propagation: 'REQUIRES_NEW' as never,
    })
  }
}

class Billing {
  readonly writing: Writing
  constructor(@Inject(WRITING) writing: Writing) {
    this.writing = writing
  }
  @Consume('sqs', {
    ...{ consumer: 'billing', queueUrl: 'http://127.0.0.1:1/1/a', retry: { baseMs: 0 } },
    eventKey: ({ payload }) => (payload as { orderId: string }).orderId,
  })
  async charge(@Event() event: GuardEvent<{ orderId: string; apart?: boolean }>): Promise<void> {
    const { orderId } = event.payload
    await this.writing.write(orderId, 'handler')
    await this.writing.nested(orderId).catch(() => undefined)
    if (event.payload.apart === true) await this.writing.apart(orderId)
    if (event.attempt === 1) throw new Error('not yet')
  }
}

interface Case {
  readonly writing: new (...given: never[]) => Writing
  readonly adapter: (plain: TransactionalAdapterTypeOrm) => TransactionalAdapterTypeOrm
  readonly join: readonly Join[]
}

async function deliver({ adapter, join, writing }: Case, payload: object): Promise<unknown[]> {
  const plain = new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource })
  const plugin = new ClsPluginTransactional({ imports: [DatabaseModule], adapter: adapter(plain) })
  const inbox = typeormInbox(dataSource, { connectionString: url })
  const module = await Test.createTestingModule({
    imports: [
      DatabaseModule,
      ClsModule.forRoot({ plugins: [plugin] }),
      OncewardModule.forRoot({ inbox, brokers, join, consume: false }),
    ],
    providers: [Billing, { provide: WRITING, useClass: writing }],
  }).compile()
  await module.init()
  const consumer = module.get(OncewardConsumers).get('billing')
  const overrides = { messageId: 'm' }
  const answers = [
    await consumer.deliver(payload, overrides),
    await consumer.deliver(payload, overrides),
  ]
  await module.close()
  return answers
}

const rowsOf = async (orderId: string): Promise<readonly string[]> => {
  const { rows } = await pool.query('select by from charges where order_id = $1 order by by', [
    orderId,
  ])
  return rows.map(({ by }) => by)
}

const same = (plain: TransactionalAdapterTypeOrm): TransactionalAdapterTypeOrm => plain
const again = [{ kind: 'defer' }, { kind: 'ack', by: 'processed' }]

// First, because a data source that joinTypeormTransactional has used hands over to every library.
test('joinCls refuses an adapter that is not joined, because it would open another transaction', async () => {
  const given = { writing: ByCls, adapter: same, join: [joinCls()] }
  const error = {
    message: expect.stringContaining('wrap the adapter of ClsPluginTransactional in joined(…)'),
  }
  expect(await deliver(given, { orderId: 'unjoined' })).toMatchObject([{ error }, { error }])
  expect(await rowsOf('unjoined')).toEqual([])
})

test.each<[string, Case]>([
  ['@nestjs-cls/transactional', { writing: ByCls, adapter: joined, join: [joinCls()] }],
  [
    'typeorm-transactional',
    { writing: ByTypeormTransactional, adapter: same, join: [joinTypeormTransactional()] },
  ],
])(
  'what a repository of %s writes is rolled back with the handler, and committed with it',
  async (name, given) => {
    expect(await deliver(given, { orderId: name })).toMatchObject(again)
    expect(await rowsOf(name)).toEqual(['handler'])
    // Its own transaction, whose row stays from each attempt.
    expect(await deliver(given, { orderId: `${name} apart`, apart: true })).toMatchObject(again)
    expect(await rowsOf(`${name} apart`)).toEqual(['apart', 'apart', 'handler'])
  },
)

test('without a join a repository writes outside of the transaction, so a retry writes twice', async () => {
  const given = { writing: ByCls, adapter: joined, join: [] }
  expect(await deliver(given, { orderId: 'alone' })).toMatchObject(again)
  expect(await rowsOf('alone')).toEqual(['handler', 'handler'])
})
