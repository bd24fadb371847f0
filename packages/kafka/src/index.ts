export type {
  ConsumeOptions,
  Consumption,
  Health,
  RunOptions,
  WrappedConsumption,
} from '@onceward/core'
export type { KafkaClient, KafkaConsumer } from './client.ts'
export { type KafkaDestinationOptions, kafkaDestination } from './clients/destination.ts'
export type { KafkaClientHandle } from './clients/handle.ts'
export type {
  KafkajsProducer,
  KafkaProducer,
  PlatformaticProducer,
} from './clients/producers.ts'
export { consumeKafka } from './consume.ts'
export { fromKafkaMessage, type KafkaRecord, kafkaMessage } from './delivery.ts'
export {
  type ConsumeKafkaOptions,
  DEFAULTS,
  type KafkaOptions,
  type WrapKafkaOptions,
} from './options.ts'
export { type WrappedKafka, wrapKafka } from './wrap.ts'
