export type { WrappedConsumption } from '@onceward/core'
export type { JobLike, QueueLike } from './client.ts'
export { type BullmqJob, bullmqJob } from './delivery.ts'
export { type BullmqDestinationOptions, bullmqDestination } from './destination.ts'
export {
  type JobsInOptions,
  jobsIn,
  type QueryableTransaction,
  type TransactionJobs,
} from './jobs-in.ts'
export { type BullmqProcessor, bullmqProcessor } from './processor.ts'
