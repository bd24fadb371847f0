export type {
  ConsumeOptions,
  Consumption,
  Health,
  RunOptions,
  WrappedConsumption,
} from '@onceward/core'
export type {
  Field,
  IoredisStreams,
  NodeRedisStreams,
  StreamClient,
  StreamEntry,
} from './client.ts'
export { type StreamDestinationOptions, streamDestination } from './clients/destination.ts'
export { consumeStream } from './consume.ts'
export { fromStreamEntry, type RawEntry, type StreamReply, streamMessage } from './delivery.ts'
export {
  type ConsumeStreamOptions,
  DEFAULTS,
  type StreamOptions,
  type WrapStreamOptions,
} from './options.ts'
export { type WrappedStream, wrapStream } from './wrap.ts'
