import { ConfigurationError } from '@onceward/core'
import type { ConsumerRegistration } from '@onceward/core/ports'
import type { Driver } from '../driver/driver.ts'
import { SPARE_CONNECTIONS } from '../driver/pool-slots.ts'
import { answers, texts } from '../driver/rows.ts'
import type { Statements } from '../statements/index.ts'
import type { Registered } from '../statements/registration.ts'
import { checkSchema } from './schema-version.ts'
import { refuseUnfitServer } from './unfit-servers.ts'
import { refuseEncoding, refuseUnfitTables } from './unfit-tables.ts'

/** An inbox that is open for one guard. */
export interface OpenedInbox {
  readonly registration: ConsumerRegistration
  readonly statements: Statements
  /** Of `consumers`. */
  readonly consumerId: number
  readonly concurrency: number
  readonly secret: Uint8Array
}

type OpenDriver = Pick<Driver<unknown>, 'query' | 'shortTransaction' | 'poolSize'>

/**
 * @throws {@link ConfigurationError} when the tables do not fit this code, the pool does not fit the concurrency, or the
 * defaults of the login refuse what a claim does.
 */
export async function open(
  driver: OpenDriver,
  statements: Statements,
  registration: ConsumerRegistration,
): Promise<OpenedInbox> {
  const concurrency = concurrencyFor(driver.poolSize, registration)
  const { schema, readSettings } = statements
  // In a transaction of several statements, as claims are: PgBouncer's statement mode refuses those.
  const answer = await checkSchema(
    schema,
    () => driver.shortTransaction((connection) => connection.query(readSettings)),
    (text) => driver.query(text),
  ).catch(async (error: unknown) => {
    await refuseServer(driver)
    throw error
  })
  const [row = {}] = answer.rows
  refuseUnfitServer(String(row['server']))
  refuseHiddenRows(schema, row['hides_rows'])
  refuseEncoding(String(row['encoding']))
  refuseUnfitTables(String(row['changed_tables']), schema)
  const registered = await register(driver, statements, registration)
  warnOfDisagreement(registered, registration)
  const secret = new Uint8Array(Buffer.from(String(row['secret']), 'hex'))
  return { registration, statements, consumerId: registered.id, concurrency, secret }
}

/** Other servers may refuse the statement that reads the settings. */
async function refuseServer(driver: OpenDriver): Promise<void> {
  const asked = driver.query('select version() as answer').catch(() => undefined)
  const [version = ''] = texts((await asked) ?? { rows: [] })
  refuseUnfitServer(version)
}

export async function register(
  driver: Pick<OpenDriver, 'query'>,
  statements: Statements,
  { consumer, dedupWindowMs, fingerprintRule }: ConsumerRegistration,
): Promise<Registered> {
  const values = [consumer, String(dedupWindowMs), String(fingerprintRule)]
  const [registered] = answers<Registered>(await driver.query(statements.register, values))
  if (registered !== undefined) return registered
  throw new ConfigurationError(
    `The consumer ${consumer} belongs to another login in ${statements.schema}.consumers: use that login, or change \`owner\` there (docs/least-privilege.sql).`,
  )
}

/** Claims run under the settings of the session, and PostgreSQL refuses every one of them then. */
function refuseHiddenRows(schema: string, hidesRows: unknown): void {
  if (hidesRows !== 'true') return
  throw new ConfigurationError(
    `\`row_security\` is off for this login, and row-level security applies to it in ${schema}: PostgreSQL would refuse every claim. Run \`alter role … reset row_security\` (or \`alter database\`), or use a login that row-level security does not bind.`,
  )
}

/** Guards of one consumer with different options keep running: fingerprints of different rules never conflict. */
function warnOfDisagreement(registered: Registered, registration: ConsumerRegistration): void {
  const { consumer, dedupWindowMs, fingerprintRule, logger } = registration
  const { formerRule } = registered
  if (formerRule !== null && formerRule !== fingerprintRule) {
    logger.warn(
      { consumer, formerRule, fingerprintRule },
      'another guard of this consumer has another `fingerprint` or `decode`: conflicts between their events are not detected. Use the same in all processes',
    )
  }
  if (registered.dedupWindowMs > dedupWindowMs) {
    logger.warn(
      { consumer, dedupWindowMs, inForceMs: registered.dedupWindowMs },
      'another guard of this consumer has a longer dedup window, which stays in force until that guard has been gone for an hour',
    )
  }
}

/**
 * How many transactions the pool can run at the same time. A pool of one or two, as in a Lambda function, runs one, and
 * everything else queues for a connection in the client.
 */
function concurrencyFor(poolSize: number | undefined, registration: ConsumerRegistration): number {
  const { concurrency, concurrencyChosen, consumer, logger } = registration
  const most = poolSize === undefined ? concurrency : Math.max(1, poolSize - SPARE_CONNECTIONS)
  if (concurrency <= most) return concurrency
  if (concurrencyChosen) {
    throw new ConfigurationError(
      `Expected the pool to have at least ${concurrency + SPARE_CONNECTIONS} connections (\`concurrency\` ${concurrency} and ${SPARE_CONNECTIONS} spare ones), got ${poolSize}: raise \`max\` of the pool or lower \`concurrency\`.`,
    )
  }
  logger.info(
    { consumer, concurrency: most, poolSize },
    'concurrency was lowered to fit the pool: raise `max` of the pool for more',
  )
  return most
}
