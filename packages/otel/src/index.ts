export type { MeteredConsumptions } from './consumption-samples.ts'
export { meterConsumptions } from './consumptions.ts'
export { type MeteredDedup, meterDedups } from './dedups.ts'
export { type MeterObserverOptions, meterObserver } from './meter-observer.ts'
export {
  CONVENTIONS_VERSION,
  METRICS,
  type Metric,
} from './names.ts'
export { type MeteredOutbox, meterOutbox } from './outbox.ts'
export { type TracedOptions, traced } from './traced.ts'
