import { ConfigurationError } from '@onceward/core'
import { refuseUnknownNames, shown } from '@onceward/core/adapter'
import { inTransaction, type PoolClientLike, type PoolLike, refuseNoPool } from '../client.ts'
import { texts } from '../driver/rows.ts'
import { createStatements, type Statements } from '../statements/index.ts'
import { toShortText } from '../statements/text-columns.ts'

/** Options of {@link resumeConsumer}. */
export interface ResumeOptions {
  /** Schema of the tables. @defaultValue `onceward` */
  readonly schema?: string | undefined
  /** Who does it, for the audit and for health. @defaultValue the login of the pool */
  readonly by?: string | undefined
  /** Why, for the audit and for health. */
  readonly why?: string | undefined
}

/** Options of {@link pauseConsumer}. */
export interface PauseOptions extends ResumeOptions {
  /** When the pause ends by itself, on the clock of the database. @defaultValue when the consumer is resumed */
  readonly until?: Date | undefined
}

export const NAMES = { schema: true, by: true, why: true } as const

/**
 * Pauses a consumer in all its processes, also in those that start later. Within two seconds none of them starts an event:
 * what was not started goes back to the broker, what runs goes on. Health says who has paused it and why. A pause that is
 * in force is replaced. Written down in the table `audit`.
 *
 * @param pool - pg's `Pool`, or anything with its `connect()`.
 * @throws {@link ConfigurationError} if no guard of this consumer has ever registered in the schema: guards with leases
 *   alone and guards on Redis do not.
 *
 * @example
 * ```ts
 * import { pauseConsumer, resumeConsumer } from '@onceward/postgres'
 *
 * await pauseConsumer(pool, 'billing', { by: 'ana', why: 'the bank is down' })
 * await resumeConsumer(pool, 'billing', { by: 'ana' })
 * ```
 */
export async function pauseConsumer(
  pool: PoolLike,
  consumer: string,
  options: PauseOptions = {},
): Promise<void> {
  refuseNoPool('pauseConsumer', pool)
  refuseUnknownNames('pauseConsumer', options, { ...NAMES, until: true })
  const { until } = options
  if (until !== undefined && !(until instanceof Date && Number.isFinite(until.getTime()))) {
    throw new ConfigurationError(
      `Expected \`until\` of pauseConsumer to be a valid Date, got ${shown(String(until))}.`,
    )
  }
  const statements = createStatements(options.schema)
  await inTransaction(pool, async (client) => {
    const values = [...valuesOf(consumer, options), until?.toISOString() ?? null]
    const changed = texts(await client.query(statements.pauseConsumer, values))
    if (changed.length === 0) throw unknownConsumer(statements, consumer)
  })
}

/**
 * Ends the pause of a consumer: its processes go on within two seconds, without a restart.
 *
 * @param pool - pg's `Pool`, or anything with its `connect()`.
 * @returns False if it was not paused.
 * @throws {@link ConfigurationError} if no guard of this consumer has ever registered in the schema.
 */
export async function resumeConsumer(
  pool: PoolLike,
  consumer: string,
  options: ResumeOptions = {},
): Promise<boolean> {
  refuseNoPool('resumeConsumer', pool)
  refuseUnknownNames('resumeConsumer', options, NAMES)
  const statements = createStatements(options.schema)
  return inTransaction(pool, async (client) => {
    const values = valuesOf(consumer, options)
    const resumed = texts(await client.query(statements.resumeConsumer, values))
    if (resumed.length > 0) return true
    await refuseUnknown(client, statements, consumer)
    return false
  })
}

export const valuesOf = (consumer: string, { by, why }: ResumeOptions): (string | null)[] => [
  consumer,
  toShortText(by) ?? null,
  toShortText(why) ?? null,
]

async function refuseUnknown(
  client: PoolClientLike,
  statements: Statements,
  consumer: string,
): Promise<void> {
  const found = texts(await client.query(statements.findConsumer, [consumer]))
  if (found.length === 0) throw unknownConsumer(statements, consumer)
}

export const unknownConsumer = ({ schema }: Statements, consumer: string): ConfigurationError =>
  new ConfigurationError(
    `No consumer ${shown(consumer)} has registered in schema ${schema}. \`npx onceward status\` lists those that have. Guards with leases alone and guards on Redis register nowhere, so operators cannot change them from outside: stop their processes to pause them.`,
  )
