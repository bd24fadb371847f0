export type { ConsumeOptions, Consumption, Health, RunOptions } from '@onceward/core'
export type { KafkaClient, KafkaConsumer } from './client.ts'
export { consumeKafka } from './consume.ts'
export { type KafkaRecord, kafkaMessage } from './delivery.ts'
export {
  type ConsumeKafkaOptions,
  DEFAULTS,
  type KafkaOptions,
  type WrapKafkaOptions,
} from './options.ts'
export { wrapKafka } from './wrap.ts'
