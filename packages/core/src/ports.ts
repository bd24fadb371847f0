// biome-ignore-all assist/source/organizeImports: in reading order

import './support/node-version.ts'

// Ports, for those who write stores and adapters, and what those who watch a guard read. Users need none of it.

// The words of the design.
export type { EventId, EventKey, Fingerprint, OwnerToken } from './model/brands.ts'
export { eventIdOf } from './identity/event-id.ts'
export { messageTypeOf } from './messages/message-type.ts'
export { EnvelopeError, ERROR_CODES } from './model/errors.ts'
export type { Defaults } from './options/options.ts'
export { DEFAULTS, OPTION_DOCS, type OptionDoc } from './options/table.ts'

// What a guard says of itself.
export type {
  GuardReading,
  InboxFigures,
  LeaseRenewals,
  PoolUse,
  WatchedGuard,
} from './model/guard-reading.ts'

// Stores.
export type {
  DeliveryPlace,
  FenceClaimAnswer,
  FenceMove,
  FenceState,
  OffsetRange,
  OffsetStore,
  OtherPartition,
  PartitionAnswer,
  PartitionClaim,
  PartitionFacts,
  PartitionFence,
} from './model/fence.ts'
export type {
  Claim,
  ClaimResult,
  DoneMark,
  Held,
  HeldAnswer,
  LeaseOperators,
  LeaseRegistration,
  LeaseSession,
  LeaseStore,
  WriteMarks,
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
  HandlerTurn,
  InboxTransaction,
  Known,
  MessageCounts,
  NextBegin,
  ParkAnswer,
  PauseStore,
  Refusal,
  Release,
  Savepoint,
  SweepStep,
  TransactionStatus,
  VerdictAnswer,
} from './model/inbox.ts'
export type { CollectedMessage } from './model/outbox.ts'
export type { Pause } from './model/guard-port.ts'
export {
  DESTINATION_NAME,
  isDestination,
  type Sender,
  toCollected,
} from './support/outbox-message.ts'
export { sentId } from './handler/outbox.ts'
export { deadLetterHeaders, isDeadLetterHeader } from './settlement/dead-letter-headers.ts'
// Functions that seal and open stored values, for code that reads and writes the tables.
export {
  openDelivery,
  openMessage,
  openResult,
  Sealer,
  sealDelivery,
  sealMessage,
} from './seal/sealer.ts'
export { isSealedResult } from './support/sealed-result.ts'
// The text of a result, which may hold a bigint.
export { fromJsonText, toJsonText } from './support/json-text.ts'
export type { Runtime } from './model/runtime.ts'
export { type Breaker, createBreaker } from './concurrency/breaker.ts'
export { createAloneLock } from './concurrency/alone-lock.ts'
export { systemRuntime } from './concurrency/system-runtime.ts'
export type { AloneLock } from './model/runtime.ts'
// The state machine of an event, for a lease store that reads, decides and writes with a condition.
export {
  type AnswerTo,
  type Command,
  type EventState,
  OPERATORS,
  transition,
} from './model/state-machine.ts'
