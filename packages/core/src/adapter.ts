// What adapters are made of; not for users.

export { type Pauses, pauseMs } from './backoff.ts'
export { bundles, type Delivered, slices } from './bundles.ts'
export { CallTimeoutError, within } from './call-timeout.ts'
export {
  type ConsumerLoop,
  type ConsumptionOptions,
  type End,
  endsWithin,
  type LoopSignals,
  type Setback,
  startConsumption,
} from './consumption.ts'
export { type HandOverHooks, handOver } from './hand-over.ts'
export { Pace } from './pace.ts'
export {
  type Availability,
  attachPort,
  type Guard,
  type GuardPort,
  type GuardSettings,
  portOf,
  type RunHooks,
} from './port.ts'
export {
  RUN_DEFAULTS,
  type RunSettings,
  rangeProblems,
  resolveRunOptions,
  runOptionProblems,
  shown,
} from './run-options.ts'
export { Setbacks } from './setbacks.ts'
export { Slots } from './slots.ts'
