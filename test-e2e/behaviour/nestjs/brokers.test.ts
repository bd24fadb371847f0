import 'reflect-metadata'
import { Controller, type INestApplicationContext, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Ctx, EventPattern, Payload } from '@nestjs/microservices'
import { FatalError, type GuardEvent } from '@onceward/core'
import {
  Consume,
  Event,
  type OncewardContext,
  OncewardModule,
  OncewardStrategy,
  Tx,
} from '@onceward/nestjs'
import { pgInbox } from '@onceward/postgres/pg'
import { skipped, turnOf } from '@onceward/testing'
import { Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { NestConsumer, RunningBroker } from '../../brokers/broker.ts'
import { BROKERS, brokersWith } from '../../brokers/index.ts'
import { Testbed } from '../../support/testbed.ts'
import { NEST_KINDS, type NestKind, type Order } from '../../support/workers/protocol.ts'

const QUIET = { logger: false, abortOnError: false } as const
const GUARD = { consumer: 'orders', eventKey: ({ payload }: { payload: unknown }) => idOf(payload) }
const idOf = (payload: unknown): string => (payload as Order).id

async function handle({ deed, id }: Order, attempt: number, tx: PoolClient): Promise<void> {
  await tx.query('insert into effects values ($1, $2, $3)', [id, 'nest', attempt])
  if (deed === 'fail-once' && attempt === 1) throw new Error('the first attempt fails')
  if (deed === 'fail-always') throw new FatalError('never')
}

type Start = (pool: Pool, consumer: NestConsumer) => Promise<INestApplicationContext>

const SERVICES: Readonly<Record<NestKind, Start>> = {
  '@Consume': (pool, { broker, place }) => {
    class Orders {
      @Consume('orders', { ...GUARD, ...place, retry: { baseMs: 0 } })
      handle(@Event() event: GuardEvent<Order>, @Tx() tx: PoolClient): Promise<void> {
        return handle(event.payload, event.attempt, tx)
      }
    }
    const onceward = OncewardModule.forRoot({ inbox: pgInbox(pool), brokers: { orders: broker } })
    @Module({ imports: [onceward], providers: [Orders] })
    class AppModule {}
    return NestFactory.createApplicationContext(AppModule, QUIET)
  },
  OncewardStrategy: async (pool, { broker, place }) => {
    @Controller()
    class Orders {
      @(EventPattern('order') as MethodDecorator)
      handle(@Payload() order: Order, @Ctx() { event }: OncewardContext, @Tx() tx: PoolClient) {
        return handle(order, event.attempt, tx)
      }
    }
    @Module({ imports: [OncewardModule.forRoot({})], controllers: [Orders] })
    class AppModule {}
    const strategy = new OncewardStrategy<object>({
      ...{ ...GUARD, broker, place, inbox: pgInbox(pool), retry: { baseMs: 0 } },
      pattern: () => 'order',
    })
    const app = await NestFactory.createMicroservice(AppModule, { strategy, ...QUIET })
    await app.listen()
    return app
  },
}

// Red when a broker loses an option of its place, such as the dead-letter queue, on its way to the adapter.
describe.each(
  brokersWith(({ nest }) => nest !== undefined).map((name, index) => ({ name, index })),
)('$name', ({ index, name }) => {
  const { nest, servers } = BROKERS[name]
  const { service, start } = servers.acceptance

  describe.skipIf(skipped(service))('a service of NestJS', turnOf(index, { of: 4 }), () => {
    let running: RunningBroker
    beforeAll(async () => {
      running = await start()
    })
    afterAll(() => running.server.stop())

    test.each(NEST_KINDS)(
      'with %s has one effect for each message, and a dead letter',
      async (kind) => {
        await using testbed = await Testbed.open({
          queue: await running.createQueue(),
          worker: { transaction: 'each' },
        })
        const pool = new Pool({ connectionString: testbed.databaseUrl })
        const consumer = await (await nest?.())?.(testbed.queue?.source as never)
        const orders: readonly Order[] = [
          ...[{ id: 'order-1' }, { id: 'order-2' }, { id: 'order-1' }],
          { id: 'order-late', deed: 'fail-once' },
        ]
        const app = await SERVICES[kind](pool, consumer as NestConsumer)
        await testbed.send([...orders, { id: 'order-dead', deed: 'fail-always' }])

        await testbed.until(async () => Object.keys(await testbed.effects()).length === 3, {
          what: 'three effects',
        })
        const isDead = async (): Promise<boolean> =>
          (await testbed.troubles())[0]?.published === true
        await testbed.until(isDead, { what: 'a dead letter' })
        await testbed.drained()
        expect(await testbed.effects()).toEqual({ 'order-1': 1, 'order-2': 1, 'order-late': 1 })
        expect(await testbed.queue?.deadLetters()).toEqual([{ id: 'order-dead', reason: 'fatal' }])
        await app.close()
        await consumer?.close()
        await pool.end()
      },
    )
  })
})
