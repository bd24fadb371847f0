// biome-ignore-all assist/source/organizeImports: in reading order

// The guard: what one makes, and what it does with a delivery.
export { createBatchGuard, createGuard } from './guard/guard.ts'
export type { Guard } from './model/guard-port.ts'
export type { DecodedDelivery, Delivery, DeliverySource, GuardEvent } from './model/delivery.ts'
export type {
  AbandonReason,
  DeadLetterReason,
  DeferCause,
  DeferReason,
  Settlement,
} from './model/settlement.ts'

// A running consumer, whatever the broker.
export type { Consumption } from './adapter/consumption.ts'
export type { DependencyOutage, Health } from './adapter/health.ts'
export type { ConsumeOptions, RunOptions } from './adapter/run-options.ts'
export type { WrappedConsumption } from './adapter/wrap.ts'

// What a user gives it.
export type {
  BatchHandler,
  CommonOptions,
  GuardOptions,
  Handler,
  HandlerContext,
  InboxGuardOptions,
  LeaseGuardOptions,
  Observer,
  OutcomeRecord,
  Resolver,
  Takeover,
} from './options/options.ts'
export type {
  GuardReading,
  InboxFigures,
  LeaseRenewals,
  PoolUse,
  WatchedGuard,
} from './model/guard-reading.ts'
export type { Logger } from './model/logger.ts'
export type { Defaults } from './options/options.ts'
export { DEFAULTS, OPTION_DOCS, type OptionDoc } from './options/table.ts'

// Identity.
export {
  cloudEventKey,
  eventBridgeKey,
  header,
  idempotencyKeyHeader,
  messageId,
  payloadHash,
  position,
  snsKey,
} from './identity/resolvers.ts'
export { s3TestEvent, unwrapEventBridge, unwrapSns } from './identity/aws-envelopes.ts'
export { eventIdOf } from './identity/event-id.ts'

// Errors: the first two are thrown by handlers, the others by onceward.
export {
  FatalError,
  RetryableError,
  InvalidPayloadError,
  MissingKeyError,
  ConflictError,
  LeaseLostError,
  DeadlineExceededError,
  CommitUnknownError,
  StoreUnavailableError,
  ConfigurationError,
  EnvelopeError,
  OncewardError,
  ERROR_CODES,
  type ErrorCode,
} from './model/errors.ts'

// The words of the design.
export type { EpochMs, EventId, EventKey, Fingerprint, Json, OwnerToken } from './model/brands.ts'

// Ports, for those who write stores and adapters.
export type {
  Claim,
  ClaimResult,
  Held,
  HeldAnswer,
  LeaseOperators,
  LeaseRegistration,
  LeaseSession,
  LeaseStore,
} from './model/lease-store.ts'
export type {
  DeadLetter,
  DeadLetterRef,
  Publish,
  PublishingEnd,
  PublishingRight,
} from './model/dead-letter.ts'
export type {
  BeginClaim,
  BeginRequest,
  Begun,
  Burial,
  Commit,
  CommitAnswer,
  ConsumerRegistration,
  CountAnswer,
  CountedEvent,
  DoneEvent,
  DueEvent,
  Failure,
  IdentifiedEvent,
  Inbox,
  InboxSession,
  InboxTransaction,
  Known,
  MessageCounts,
  ParkAnswer,
  Refusal,
  Release,
  SweepStep,
  TransactionStatus,
  VerdictAnswer,
} from './model/inbox.ts'
export { deadLetterHeaders, isDeadLetterHeader } from './settlement/dead-letter-headers.ts'
export type { Runtime } from './model/runtime.ts'
export { type Breaker, createBreaker } from './concurrency/breaker.ts'
export { createAloneLock } from './concurrency/alone-lock.ts'
export { systemRuntime } from './concurrency/system-runtime.ts'
export type { AloneLock } from './model/runtime.ts'
