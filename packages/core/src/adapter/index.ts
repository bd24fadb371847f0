// What adapters and stores are made of. Not for users.

export { type BackoffRange, pauseMs } from '../concurrency/backoff.ts'
export { createSemaphore, type Release, type Semaphore } from '../concurrency/semaphore.ts'
export {
  answerWithin,
  CallTimeoutError,
  endsWithin,
  LATE,
  withTimeout,
} from '../concurrency/timeout.ts'
export { decideCount, isOwnerLive, YOUNG_MS } from '../model/attempt-rules.ts'
export { SWALLOWED_STATEMENT } from '../model/errors.ts'
export {
  type Availability,
  attachPort,
  type Guard,
  type GuardPort,
  type GuardSettings,
  portOf,
  type RunHooks,
} from '../model/guard-port.ts'
export { type KnownNames, refuseUnknownNames, unknownNames } from '../model/known-names.ts'
export { shown } from '../model/shown.ts'
export {
  type ConsumerLoop,
  type ConsumptionEnd,
  type ConsumptionOptions,
  type LoopSignals,
  type Outage,
  startConsumption,
} from './consumption.ts'
export { byOrderingKey, type Delivered, toBatches } from './ordering.ts'
export { Prefetch } from './prefetch.ts'
export { type ProcessHooks, processAndSettle } from './process-and-settle.ts'
export { Recovery } from './recovery.ts'
export {
  quoted,
  RUN_DEFAULTS,
  type RunSettings,
  rangeProblems,
  resolveRunOptions,
  runOptionProblems,
} from './run-options.ts'
export { SharedSlots } from './slots.ts'
