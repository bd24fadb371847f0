import { ConfigurationError } from '@onceward/core'
import { isConnectionString, shown } from '@onceward/core/adapter'

/** The default schema of the tables of onceward. */
export const DEFAULT_SCHEMA = 'onceward'

/**
 * Quotes the schema's name for use in SQL. No other name of the user gets into a statement.
 *
 * @throws {@link ConfigurationError} for a name that PostgreSQL would cut or cannot store.
 */
export function quotedSchema(schema: string = DEFAULT_SCHEMA): string {
  if (typeof schema !== 'string') {
    throw new ConfigurationError(`Expected \`schema\` to be a name, got ${typeof schema}.`)
  }
  const bytes = Buffer.byteLength(schema)
  if (isConnectionString(schema) || bytes < 1 || bytes > 63 || schema.includes('\0')) {
    throw new ConfigurationError(
      `Expected \`schema\` to be a name of 1 to 63 bytes, got \`${shown(schema)}\` (${bytes} bytes).`,
    )
  }
  return `"${schema.replaceAll('"', '""')}"`
}

/** The schema's name as a string literal of SQL. */
export function schemaLiteral(schema: string = DEFAULT_SCHEMA): string {
  return `'${schema.replaceAll("'", "''")}'`
}
