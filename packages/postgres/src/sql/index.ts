import { inbox } from './000001-inbox.ts'
import { leases } from './000002-leases.ts'
import { workers } from './000003-workers.ts'
import { outbox } from './000004-outbox.ts'
import { kafkaOffsets } from './000005-kafka-offsets.ts'
import { outboxLeases } from './000006-outbox-leases.ts'
import { pauses } from './000007-pauses.ts'
import { removedConsumers } from './000008-removed-consumers.ts'

/** One step of the tables, from one version to the next. */
export interface Migration {
  readonly version: number
  /** Stored in the table `migrations` with the version. */
  readonly name: string
  /**
   * The oldest version of the tables whose code runs on these tables too, so that its pods may restart during a
   * deployment. Without it: only this version's own code.
   */
  readonly readableFrom?: number | undefined
  /** `:"schema"` stands for the quoted name of the schema. */
  readonly sql: string
}

/**
 * All migrations, in order. A migration that was published never changes.
 *
 * The SQL is text in TypeScript modules, so that a bundle holds it: files read at run time are not in a bundle.
 */
export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: '000001-inbox.sql', sql: inbox },
  { version: 2, name: '000002-leases.sql', sql: leases },
  { version: 3, name: '000003-workers.sql', readableFrom: 2, sql: workers },
  { version: 4, name: '000004-outbox.sql', readableFrom: 2, sql: outbox },
  { version: 5, name: '000005-kafka-offsets.sql', readableFrom: 2, sql: kafkaOffsets },
  { version: 6, name: '000006-outbox-leases.sql', readableFrom: 2, sql: outboxLeases },
  { version: 7, name: '000007-pauses.sql', readableFrom: 2, sql: pauses },
  { version: 8, name: '000008-removed-consumers.sql', readableFrom: 2, sql: removedConsumers },
]
