import { ConfigurationError } from '@onceward/core'
import type { QueryAnswer } from '../driver/driver.ts'
import { sqlState } from '../errors.ts'

/** The version of the tables that this code needs: the newest file in `sql/`. */
export const SCHEMA_VERSION = 8

// https://www.postgresql.org/docs/current/errcodes-appendix.html: the errors for missing tables.
const MISSING = new Set(['3F000', '42P01', '42703'])

/**
 * What to throw for an error of a statement that names tables of onceward.
 *
 * @param database - The name of the database, if it is known.
 */
export function missingTables(schema: string, error: unknown, database?: string): unknown {
  if (!MISSING.has(sqlState(error) ?? '')) return error
  const place = database === undefined ? '' : ` of the database ${database}`
  // The cause is the driver's error: the one between says the same with fewer names.
  const cause = error instanceof ConfigurationError ? error.cause : error
  return new ConfigurationError(
    `The tables of onceward are missing in schema ${schema}${place}: run \`npx onceward migrate\` with its URL in DATABASE_URL, or \`await migrate(pool)\`, first.`,
    { cause },
  )
}

/**
 * Checks the version of the tables, because new code on old tables would fail at every insert.
 *
 * Newer tables are accepted if their migrations say that this code can use them.
 *
 * @param read - Runs the statement that selects `version` and `readable_from` (trap T34).
 * @param ask - Runs another statement, to name the database.
 * @throws {@link ConfigurationError} that says what to do.
 */
export async function checkSchema(
  schema: string,
  read: () => Promise<QueryAnswer>,
  ask?: (text: string) => Promise<QueryAnswer>,
): Promise<QueryAnswer> {
  const answer = await read().catch(async (error: unknown) => {
    const named = await ask?.('select current_database()::text as answer').catch(() => undefined)
    const [row] = named?.rows ?? []
    throw missingTables(schema, error, row && String(row['answer']))
  })
  const version = Number(answer.rows[0]?.['version'] ?? 0)
  const readableFrom = Number(answer.rows[0]?.['readable_from'] ?? version)
  if (version >= SCHEMA_VERSION && readableFrom <= SCHEMA_VERSION) return answer
  throw new ConfigurationError(
    version < SCHEMA_VERSION
      ? `The tables in schema ${schema} have version ${version}, this code needs ${SCHEMA_VERSION}: run \`await migrate(pool)\` before starting it.`
      : `The tables in schema ${schema} have version ${version}, this code knows ${SCHEMA_VERSION}: update @onceward/postgres. The tables can be used from the code of version ${readableFrom} on.`,
  )
}
