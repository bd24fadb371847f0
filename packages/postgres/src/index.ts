export type { PoolClientLike, PoolLike, SizedPoolLike } from './client.ts'
export type { AllDeadLetters, DeadLetterFilter, DeadLetterTarget } from './dead-letter-filter.ts'
export {
  type DeadLetters,
  type DeadLettersOptions,
  deadLetters,
  type StoredDeadLetter,
} from './dead-letters.ts'
export { type ForgetHistoryOptions, forgetHistory } from './forget-history.ts'
export { type PostgresLeases, type PostgresLeasesOptions, postgresLeases } from './lease-store.ts'
export { type Migrated, type MigrateOptions, migrate } from './migrate.ts'
export type { OperatorReport, Untouched, UntouchedLetter } from './operator-actions.ts'
export type { QueueSender } from './requeue.ts'
