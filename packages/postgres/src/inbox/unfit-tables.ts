import { ConfigurationError } from '@onceward/core'

/** A change of an administrator with which guards cannot keep their promises. */
export interface UnfitTable {
  /** A sentence that names the table. */
  readonly finding: string
  /** A sentence that says what to do. */
  readonly remedy: string
}

/**
 * Most changes of the tables make a statement fail, with PostgreSQL's own words. This one would lose events in silence.
 *
 * @param unlogged - JSON of the names of unlogged tables, as `unloggedTables` selects them.
 * @param schema - Quoted.
 */
export function unfitTables(unlogged: string, schema: string): readonly UnfitTable[] {
  const names = JSON.parse(unlogged) as readonly string[]
  return names.map((name) => ({
    finding: `${schema}.${name} is unlogged: a crash of PostgreSQL empties it, and then processed events run again.`,
    remedy: `Run \`alter table ${schema}.${name} set logged\`.`,
  }))
}

/** @throws {@link ConfigurationError} that names every unlogged table. */
export function refuseUnfitTables(unlogged: string, schema: string): void {
  const unfit = unfitTables(unlogged, schema)
  if (unfit.length === 0) return
  throw new ConfigurationError(
    unfit.map(({ finding, remedy }) => `${finding} ${remedy}`).join('\n'),
  )
}

/**
 * Keys and error texts are stored as text and may contain any character.
 *
 * @throws {@link ConfigurationError}
 */
export function refuseEncoding(encoding: string): void {
  if (encoding === 'UTF8' || encoding === 'SQL_ASCII') return
  throw new ConfigurationError(
    `Expected a database with encoding UTF8, got ${encoding}: create one with \`create database … encoding 'UTF8' template template0\`.`,
  )
}
