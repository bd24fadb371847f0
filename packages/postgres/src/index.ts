export type { PoolClientLike, PoolLike, SizedPoolLike } from './client.ts'
export { type PostgresLeases, type PostgresLeasesOptions, postgresLeases } from './lease-store.ts'
export type {
  AllDeadLetters,
  DeadLetterFilter,
  DeadLetterTarget,
} from './operators/dead-letter-filter.ts'
export {
  type DeadLetters,
  type DeadLettersOptions,
  deadLetters,
  type StoredDeadLetter,
} from './operators/dead-letters.ts'
export { type ForgetHistoryOptions, forgetHistory } from './operators/forget-history.ts'
export { type Migrated, type MigrateOptions, migrate } from './operators/migrate.ts'
export type { OperatorReport, Untouched, UntouchedLetter } from './operators/operator-actions.ts'
export {
  type PauseOptions,
  pauseConsumer,
  type ResumeOptions,
  resumeConsumer,
} from './operators/pauses.ts'
export {
  type Removal,
  type RemoveOptions,
  removeConsumer,
} from './operators/remove-consumer.ts'
export type { QueueSender } from './operators/requeue.ts'
