export type {
  ConsumeOptions,
  Consumption,
  Health,
  RunOptions,
  WrappedConsumption,
} from '@onceward/core'
export type { SqsClient } from './client.ts'
export { type SqsDestinationOptions, sqsDestination } from './clients/destination.ts'
export { consumeSqs } from './consume.ts'
export { fromSqsMessage, sqsMessage } from './delivery.ts'
export {
  type ConsumeSqsOptions,
  DEFAULTS,
  receiveAttributes,
  type SqsOptions,
  type WrapSqsOptions,
} from './options.ts'
export { type SettleSqsOptions, settleSqs } from './settle.ts'
export { type WrappedSqs, wrapSqs } from './wrap.ts'
