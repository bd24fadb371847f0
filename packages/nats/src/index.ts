export type {
  ConsumeOptions,
  Consumption,
  Health,
  RunOptions,
  WrappedConsumption,
} from '@onceward/core'
export type { NatsClient, NatsDeliveryInfo, NatsMessage } from './client.ts'
export { type NatsDestinationOptions, natsDestination } from './clients/destination.ts'
export { consumeNats } from './consume.ts'
export { fromNatsMessage, natsMessage } from './delivery.ts'
export {
  type ConsumeNatsOptions,
  DEFAULTS,
  type NatsDeadLetter,
  type NatsOptions,
  type WrapNatsOptions,
} from './options.ts'
export { type WrappedNats, wrapNats } from './wrap.ts'
