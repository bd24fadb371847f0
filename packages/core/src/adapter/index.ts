// Parts of adapters and stores. Not for users.
import '../support/node-version.ts'

export { type BackoffRange, pauseMs } from '../concurrency/backoff.ts'
export { andThen, isPromise, type MaybeAsync } from '../concurrency/maybe-async.ts'
export { createSemaphore, type Semaphore } from '../concurrency/semaphore.ts'
export {
  answerWithin,
  CallTimeoutError,
  endsWithin,
  LATE,
  withTimeout,
} from '../concurrency/timeout.ts'
export {
  DeliveryBuffer,
  type GuardCall,
  oncePerTurn,
  type StartLimits,
} from '../flow/delivery-buffer.ts'
export { DeliveryFlow, type FlowOptions, type MayHold } from '../flow/delivery-flow.ts'
export { byOrderingKey, type Delivered, toBatches } from '../flow/ordering.ts'
export type { Startable } from '../flow/pending-deliveries.ts'
export { PushPrefetch } from '../flow/prefetch.ts'
export { RunningLanes } from '../flow/running-lanes.ts'
export { STORE_LOOK_MS, StoreGate } from '../flow/store-gate.ts'
export {
  type AttemptAnswer,
  type AttemptCommand,
  attemptStep,
  decideCount,
  dueNow,
  isBeingPublished,
  isOwnerLive,
  knownTrouble,
  type Publication,
  replayed,
  type Troubled,
  UNPUBLISHED,
  YOUNG_MS,
} from '../model/attempt-machine.ts'
export { copyDelivery } from '../model/delivery.ts'
export {
  describeError,
  isError,
  messageOf,
  SWALLOWED_STATEMENT,
  unrunError,
} from '../model/errors.ts'
export {
  type Availability,
  attachHealthPort,
  attachPort,
  attachRoutePort,
  type Backlog,
  type Guard,
  type GuardPort,
  type GuardSettings,
  type HealthPort,
  healthPortOf,
  type Pause,
  pauseOf,
  portOf,
  type RoutePort,
  type RunHooks,
  routePortOf,
} from '../model/guard-port.ts'
export type { Release } from '../model/runtime.ts'
export { isConflict } from '../model/state-machine.ts'
export {
  type DeliveryName,
  messageHash,
  registerDeliveryNames,
  registerEnvelopeReader,
  registerMessageTraits,
  registerMessageTypes,
} from '../support/adapter-registry.ts'
export { forCaller } from '../support/caller.ts'
export { consoleLogger } from '../support/default-logger.ts'
export { messageCountsBy } from '../support/message-counts.ts'
export { givenContentType, outgoingHeaders } from '../support/outgoing-headers.ts'
export { isConnectionString, shown } from '../support/shown.ts'
export {
  type ClientRule,
  hasMethod,
  type KnownNames,
  refuseUnfitClient,
  refuseUnknownNames,
} from '../support/wrong-arguments.ts'
export {
  type ClassifiedError,
  classifierOf,
  isFatal,
  kindsByName,
  NETWORK_CODES,
} from './classified-error.ts'
export {
  type ConsumerLoop,
  type ConsumptionEnd,
  type LoopSignals,
  startConsumption,
} from './consumption.ts'
export { type DeadLetterPlace, registerPublisher } from './dead-letter-place.ts'
export { readEnvelope, withEnvelope, writeEnvelope } from './envelope.ts'
export { type Findings, reportFindings, when } from './findings.ts'
export type { Outage, WrapOutage } from './health.ts'
export {
  type BrokerAddress,
  findingsOf,
  notSent,
  OPERATOR_CALL_MS,
  type OperateBroker,
  type OperatedBroker,
  refusalOf,
  refuseParameters,
} from './operator.ts'
export { PullLoop, type PullSource, type ReceiveRoom } from './pull-loop.ts'
export { isGuardClosed, Recovery } from './recovery.ts'
export {
  CONSUME_NAMES,
  quoted,
  RUN_DEFAULTS,
  RUN_NAMES,
  type RunSettings,
  rangeProblems,
  refuseProblems,
  refuseUnknownOptions,
  resolveRunOptions,
  runOptionProblems,
  typeProblems,
  withoutUndefined,
} from './run-options.ts'
export { type Settle, settleBy, type Verbs } from './settle-by.ts'
export {
  busyMs,
  laterMs,
  longerMs,
  type Pace,
  SettleReport,
  settleDeadLetter,
  type WaitRange,
  waitMsOf,
} from './settle-rules.ts'
export {
  type WrappedLoop,
  type WrapSignals,
  withConsumption,
  wrapMessages,
} from './wrap.ts'
