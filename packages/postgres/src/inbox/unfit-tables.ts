import { ConfigurationError } from '@onceward/core'

/** A change of an administrator with which guards cannot keep their promises. */
export interface UnfitTable {
  /** A sentence that names the table. */
  readonly finding: string
  /** A sentence that says what to do. */
  readonly remedy: string
}

interface ChangedTable {
  readonly name: string
  readonly isOrdinary: boolean
}

/**
 * Most changes of the tables make a statement fail, with PostgreSQL's own words. These would run events twice in
 * silence: a crash empties an unlogged table, and the primary key of a partitioned one may hold more than the event's
 * id, so that one event has a row in two partitions.
 *
 * @param changed - What `changedTables` selects.
 * @param schema - Quoted.
 */
export function unfitTables(changed: string, schema: string): readonly UnfitTable[] {
  const tables = JSON.parse(changed) as readonly ChangedTable[]
  return tables.map(({ isOrdinary, name }) =>
    isOrdinary
      ? {
          finding: `${schema}.${name} is unlogged: a crash of PostgreSQL empties it, and then processed events run again.`,
          remedy: `Run \`alter table ${schema}.${name} set logged\`.`,
        }
      : {
          finding: `${schema}.${name} is not an ordinary table: if it is partitioned, one event may have a row in two partitions and run twice.`,
          remedy: 'Put an ordinary table with its rows and its primary key in its place.',
        },
  )
}

/** @throws {@link ConfigurationError} that names every such table. */
export function refuseUnfitTables(changed: string, schema: string): void {
  const unfit = unfitTables(changed, schema)
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
