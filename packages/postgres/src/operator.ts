// Parts of the command line `onceward`. Not for users.

export { inTransaction, type PoolClientLike, type PoolLike } from './client.ts'
export { sqlState, toStoreError } from './errors.ts'
export { readNamed, UnreadableError } from './inbox/bodies.ts'
export { SCHEMA_VERSION } from './inbox/schema-version.ts'
export { type UnfitTable, unfitTables } from './inbox/unfit-tables.ts'
export { deadLetterChanges, GROUP_SIZE } from './operators/dead-letter-changes.ts'
export { type MigrationSql, migrationSql } from './operators/migrate.ts'
export { type SweepReport, sweep } from './operators/sweep.ts'
export { changedTables, OWN_TABLES } from './statements/own-tables.ts'
export { identityQuery } from './statements/registration.ts'
export { quotedSchema } from './statements/schema-name.ts'
export { escapeText, unescapeText } from './statements/text-columns.ts'
