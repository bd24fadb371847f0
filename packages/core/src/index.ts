// biome-ignore-all assist/source/organizeImports: in reading order

// The guard: what one makes, and what it does with a delivery.
export { createBatchGuard, createGuard } from './guard.ts'
export type { Guard } from './port.ts'
export type { DecodedDelivery, Delivery, DeliverySource, GuardEvent } from './delivery.ts'
export type { AbandonReason, DeadLetterReason, DeferReason, Settlement } from './settlement.ts'

// A running consumer, whatever the broker.
export type { Consumption, Health } from './consumption.ts'
export type { ConsumeOptions, RunOptions } from './run-options.ts'

// What a user gives it.
export type {
  BatchHandler,
  CommonOptions,
  GuardOptions,
  Handler,
  HandlerContext,
  InboxGuardOptions,
  LeaseGuardOptions,
  OutcomeRecord,
  Resolver,
  Takeover,
} from './options.ts'
export type { Logger } from './logger.ts'
export { DEFAULTS, type Defaults } from './defaults.ts'
export { OPTION_DOCS, type OptionDoc } from './option-docs.ts'

// Identity.
export {
  cloudEventKey,
  header,
  idempotencyKeyHeader,
  messageId,
  payloadHash,
  position,
} from './resolvers.ts'
export { eventIdOf } from './event-id.ts'

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
  OncewardError,
  ERROR_CODES,
  type ErrorCode,
} from './errors.ts'

// The words of the design.
export type { EpochMs, EventId, EventKey, Fingerprint, Json, OwnerToken } from './vocabulary.ts'

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
} from './lease-store.ts'
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
  DeadLetter,
  DeadLetterRef,
  DueEvent,
  Failure,
  IdentifiedEvent,
  Inbox,
  InboxSession,
  InboxTransaction,
  DoneEvent,
  Known,
  Publish,
  PublishAnswer,
  Refusal,
  Release,
  SweepStep,
  TransactionStatus,
  VerdictAnswer,
} from './ports.ts'
export { deadLetterHeaders } from './dead-letter-headers.ts'
export { type Runtime, systemRuntime } from './runtime.ts'
export { type Breaker, createBreaker } from './breaker.ts'
export { type AloneLock, createAloneLock } from './alone.ts'
