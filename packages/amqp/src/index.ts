export type {
  ConsumeOptions,
  Consumption,
  Health,
  RunOptions,
  WrappedConsumption,
} from '@onceward/core'
export type { AmqpChannel, AmqpConfirmChannel, AmqpConnection } from './client.ts'
export { type AmqpDestinationOptions, amqpDestination } from './clients/destination.ts'
export { consumeAmqp } from './consume.ts'
export { amqpMessage, fromAmqpMessage } from './delivery.ts'
export {
  type AmqpOptions,
  type ConsumeAmqpOptions,
  DEFAULTS,
  type DeadLetterTarget,
  type WrapAmqpOptions,
} from './options.ts'
export { settleAmqp } from './settle.ts'
export { assertRetryTopology } from './topology.ts'
export { type WrappedAmqp, wrapAmqp } from './wrap.ts'
