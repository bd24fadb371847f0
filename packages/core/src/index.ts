// biome-ignore-all assist/source/organizeImports: in reading order

import './support/node-version.ts'

// The guard: what one makes, and what it does with a delivery.
export { createBatchGuard, createGuard } from './guard/guard.ts'
export { type OnceCall, once } from './edge/once.ts'
export type { Guard, ProcessOptions } from './model/guard-port.ts'
export type {
  DecodedDelivery,
  Delivery,
  DeliveryItem,
  DeliverySource,
  GuardEvent,
} from './model/delivery.ts'
export type {
  AbandonReason,
  DeadLetterReason,
  DeferCause,
  DeferReason,
  Settlement,
} from './model/settlement.ts'

// A running consumer, whatever the broker.
export type { Consumption } from './adapter/consumption.ts'
export { type Drainable, drainOnSignals } from './adapter/drain-on-signals.ts'
export type { DependencyOutage, Health } from './adapter/health.ts'
export type { ConsumeOptions, RunOptions } from './adapter/run-options.ts'
export type { WrappedConsumption } from './adapter/wrap.ts'

// What a user gives it.
export type {
  AfterCommitInfo,
  ApproximateGuardOptions,
  BatchHandler,
  BatchRouterOptions,
  CommonOptions,
  GuardOptions,
  Handler,
  HandlerContext,
  InboxGuardOptions,
  LeaseGuardOptions,
  Observer,
  OutcomeRecord,
  Resolver,
  Route,
  RouterOptions,
  RoutingOptions,
  Takeover,
  WholePayload,
} from './options/options.ts'
export type { Logger } from './model/logger.ts'
export type { Confirmation, Destination, OutgoingMessage } from './model/destination.ts'
export type { Outbox, OutboxMessage } from './model/outbox.ts'
export type { Seal, SealContext, SealedField } from './options/seal.ts'

// Identity.
export {
  cloudEventKey,
  eventBridgeKey,
  header,
  idempotencyKeyHeader,
  messageId,
  payloadHash,
  position,
  recordKey,
  snsKey,
} from './messages/resolvers.ts'

// Messages of others: for the options `decode`, `eventKey` and `skip`.
export { losslessJson } from './messages/lossless-json.ts'
export { s3TestEvent, unwrapEventBridge, unwrapSns } from './messages/aws-envelopes.ts'
export type { Decode, Unwrap } from './messages/envelope-traits.ts'
export { s3Key } from './messages/s3-key.ts'
export { debezium, debeziumKey } from './messages/debezium.ts'
export { unwrapCloudEvent } from './messages/cloud-event.ts'
export { type ConfluentMessage, unwrapConfluent } from './messages/confluent.ts'
export {
  massTransitKey,
  type S3Pointer,
  unwrapMassTransit,
  unwrapS3Pointer,
} from './messages/envelopes.ts'

// Many regions: one home for each key.
export { homeRegion } from './messages/home-region.ts'

// Errors: the first two are thrown by handlers, the others by onceward.
export {
  FatalError,
  RetryableError,
  InvalidPayloadError,
  MissingKeyError,
  UnknownTypeError,
  ConflictError,
  InProgressError,
  LeaseLostError,
  DeadlineExceededError,
  CommitUnknownError,
  StoreUnavailableError,
  ConsumerPausedError,
  ConfigurationError,
  OutboxError,
  SealError,
  OncewardError,
  type ErrorCode,
} from './model/errors.ts'

// The words of the design.
export type { EpochMs, Json } from './model/brands.ts'

// What a store is, for functions that take one.
export type { Inbox } from './model/inbox.ts'
export type { ApproximateDedup, LeaseStore } from './model/lease-store.ts'
