import { ConfigurationError } from '@onceward/core'
import type { QueryAnswer } from '../driver/driver.ts'
import { sqlState } from '../errors.ts'

/** The version of the tables that this code needs: the newest file in `sql/`. */
export const SCHEMA_VERSION = 7

// https://www.postgresql.org/docs/current/errcodes-appendix.html: the errors for missing tables.
const MISSING = new Set(['3F000', '42P01', '42703'])

/** What to throw for an error of a statement that names tables of onceward. */
export function missingTables(schema: string, error: unknown): unknown {
  if (!MISSING.has(sqlState(error) ?? '')) return error
  return new ConfigurationError(
    `The tables of onceward are missing in schema ${schema}: run \`await migrate(pool)\` first.`,
    { cause: error },
  )
}

/**
 * Checks the version of the tables, because new code on old tables would fail at every insert.
 *
 * Newer tables are accepted if their migrations say that this code can use them.
 *
 * @param read - Runs the statement that selects `version` and `readable_from` (trap T34).
 * @throws {@link ConfigurationError} that says what to do.
 */
export async function checkSchema(
  schema: string,
  read: () => Promise<QueryAnswer>,
): Promise<QueryAnswer> {
  const answer = await read().catch((error: unknown) => {
    throw missingTables(schema, error)
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
