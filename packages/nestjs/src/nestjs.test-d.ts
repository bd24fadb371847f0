import type { CustomTransportStrategy } from '@nestjs/microservices'
import type { HealthIndicatorFunction } from '@nestjs/terminus'
import type { TestingModule, TestingModuleBuilder } from '@nestjs/testing'
import type { TransactionalAdapter } from '@nestjs-cls/transactional'
import type { Inbox } from '@onceward/core'
import type { Kafka } from 'kafkajs'
import type { EntityManager } from 'typeorm'
import { z } from 'zod'
import {
  type ClsAdapter,
  Consume,
  kafkaBroker,
  type OncewardHealth,
  type OncewardModuleOptions,
  OncewardStrategy,
  OncewardTesting,
  sqsBroker,
} from './index.ts'

declare const kafka: Kafka
declare const inbox: Inbox<EntityManager>
declare const health: OncewardHealth
declare const builder: TestingModuleBuilder

const Order = z.object({ orderId: z.string(), cents: z.int() })
const queueUrl = 'https://sqs.eu-central-1.amazonaws.com/1/orders'

// The payload has the type of the schema.
Consume('sqs', {
  consumer: 'a',
  queueUrl,
  schema: Order,
  eventKey: ({ payload }) => payload.orderId,
})
// @ts-expect-error a number of cents is no key of text
Consume('sqs', { consumer: 'a', queueUrl, schema: Order, eventKey: ({ payload }) => payload.name })
Consume('kafka', { consumer: 'a', topics: ['orders'] })
// @ts-expect-error beside a guard's options it is a name
Consume('kafka', { consumer: { sessionTimeout: 10_000 }, topics: ['orders'] })
// @ts-expect-error a consumer has a name
Consume('sqs', { queueUrl })
// @ts-expect-error a consumer reads from somewhere
Consume('sqs', { consumer: 'a' })
// @ts-expect-error no broker has such an option
Consume('sqs', { consumer: 'a', queueURL: queueUrl })

// Each inbox and each broker fits the module.
export const options: OncewardModuleOptions = {
  inbox,
  brokers: {
    kafka: kafkaBroker(kafka, { consumer: { sessionTimeout: 10_000 } }),
    sqs: sqsBroker({ send: async () => ({}) } as never),
  },
}

const consumer = { consumer: 'orders', inbox }
// The place is that of the broker.
export const strategy: CustomTransportStrategy = new OncewardStrategy({
  ...{ broker: kafkaBroker(kafka), place: { topics: ['orders'] }, ...consumer },
})
export const wrong: CustomTransportStrategy = new OncewardStrategy({
  broker: kafkaBroker(kafka),
  // @ts-expect-error a queue of SQS is no place of Kafka
  place: { queueUrl },
  ...consumer,
})

export const indicator: HealthIndicatorFunction = () => health.check('onceward')
// biome-ignore lint/suspicious/noExplicitAny: as the library types it
export const adapterOf = (given: TransactionalAdapter<any, any, any>): ClsAdapter => given
export const made: Promise<TestingModule> = OncewardTesting.module(builder, { tx: {} })
