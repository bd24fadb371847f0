import type { Delivery } from '@onceward/core'
import type { Guard } from '@onceward/core/adapter'
import type { Consumer, ConsumerRunConfig, EachMessagePayload, Kafka, Producer } from 'kafkajs'
import { expectTypeOf } from 'vitest'
import {
  type Consumption,
  consumeKafka,
  fromKafkaMessage,
  type KafkaClient,
  type KafkaConsumer,
  kafkaMessage,
  wrapKafka,
} from './index.ts'

declare const kafka: Kafka
declare const consumer: Consumer
declare const producer: Producer
declare const guard: Guard
declare const delivery: Delivery
declare const undefinedOrDead: { readonly producer: Producer; readonly topic: string } | undefined

expectTypeOf(kafka).toExtend<KafkaClient>()
expectTypeOf(consumer).toExtend<KafkaConsumer>()
expectTypeOf(consumeKafka).returns.resolves.toEqualTypeOf<Consumption>()
expectTypeOf(wrapKafka).returns.toExtend<ConsumerRunConfig>()
expectTypeOf(wrapKafka(consumer, guard).consumption).toEqualTypeOf<
  Pick<Consumption, 'health' | 'drain'>
>()
declare const payload: EachMessagePayload
expectTypeOf(fromKafkaMessage(payload)).toEqualTypeOf<Delivery>()
expectTypeOf(kafkaMessage(delivery)).toExtend<
  Pick<EachMessagePayload, 'topic' | 'partition' | 'message'> | undefined
>()

void consumeKafka(kafka, guard, { topics: ['orders', /^events/], deadLetter: undefinedOrDead })
void consumeKafka(kafka, guard, {
  topics: ['orders'],
  groupId: undefined,
  fromBeginning: false,
  consumer: { sessionTimeout: 6_000, retry: { retries: 9 } },
  partitionsConsumedConcurrently: 4,
  batch: { size: 5 },
  drainMs: 1_000,
  signal: undefined,
  deadLetter: { producer: { send: producer.send }, topic: 'orders.dead' },
})
// @ts-expect-error topics are required
void consumeKafka(kafka, guard, {})
// @ts-expect-error a wrap subscribes to nothing
wrapKafka(consumer, guard, { topics: ['orders'] })

void consumer.run(wrapKafka(consumer, guard))
void consumer.run(wrapKafka(consumer, guard, { deadLetter: { producer, topic: 'dead' } }))
