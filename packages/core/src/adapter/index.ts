// What adapters are made of; not for users.

export { type Pauses, pauseMs } from '../concurrency/backoff.ts'
export { CallTimeoutError, within } from '../concurrency/timeout.ts'
export {
  type Availability,
  attachPort,
  type Guard,
  type GuardPort,
  type GuardSettings,
  portOf,
  type RunHooks,
} from '../model/guard-port.ts'
export {
  type ConsumerLoop,
  type ConsumptionOptions,
  type End,
  endsWithin,
  type LoopSignals,
  type Setback,
  startConsumption,
} from './consumption.ts'
export { bundles, type Delivered, slices } from './ordering.ts'
export { Pace } from './prefetch.ts'
export { type HandOverHooks, handOver } from './process-and-settle.ts'
export { Setbacks } from './recovery.ts'
export {
  RUN_DEFAULTS,
  type RunSettings,
  rangeProblems,
  resolveRunOptions,
  runOptionProblems,
  shown,
} from './run-options.ts'
export { Slots } from './slots.ts'
