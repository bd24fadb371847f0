import { ConfigurationError, type ConsumerRegistration } from '@onceward/core'
import type { SchemaFacts, TableFacts } from '../statements/table-facts.ts'

/** Something that an administrator has changed, so that guards cannot keep their promises. */
export interface UnfitTable {
  /** `error`: guards do not open. `warning`: it depends on what else is done there. */
  readonly severity: 'error' | 'warning'
  /** A sentence that names the table. */
  readonly finding: string
  /** A sentence that says what to do. */
  readonly remedy: string
}

/**
 * The changes of the tables with which guards cannot keep their promises, in the order of the tables' names.
 *
 * @param schema - Quoted.
 */
export function unfitTables(facts: SchemaFacts, schema: string): readonly UnfitTable[] {
  return facts.tables.flatMap((table) => unfit(table, `${schema}.${table.name}`))
}

function unfit(table: TableFacts, name: string): readonly UnfitTable[] {
  const { kept, kind, publications, rules, triggers } = table
  const found: UnfitTable[] = []
  if (kind !== 'r') {
    const what = KINDS[kind] ?? 'no table'
    found.push({
      severity: 'error',
      finding: `${name} is ${what}: batches cannot be claimed in it, and it is not swept.`,
      remedy: `Put an ordinary table with its rows and its primary key in its place.`,
    })
  } else if (rules > 0) {
    found.push({
      severity: 'error',
      finding: `${name} has rules for inserts or updates: PostgreSQL refuses \`on conflict\` there, and so every claim.`,
      remedy: `Drop them (\`drop rule … on ${name}\`), or use a trigger after the change.`,
    })
  }
  if (kept === 'u') {
    found.push({
      severity: 'error',
      finding: `${name} is unlogged: a crash of PostgreSQL empties it, and then processed events run again.`,
      remedy: `Run \`alter table ${name} set logged\`.`,
    })
  }
  if (publications.length > 0) {
    const names = publications.map((each) => `"${each.replaceAll('"', '""')}"`).join(', ')
    found.push({
      severity: 'error',
      finding: `${name} is published by ${names} without a replica identity: PostgreSQL refuses to change its rows, so a failure cannot be recorded.`,
      remedy: `Run \`alter table ${name} replica identity default\`, or take the table out of the publication.`,
    })
  }
  if (triggers.length > 0) {
    found.push({
      severity: 'warning',
      finding: `${name} has triggers before the change of a row: ${triggers.join(', ')}. If one returns null, the change is not made, and events are deferred again and again, as \`running-elsewhere\`.`,
      remedy: `Let them return the row, or make each an \`after\` trigger.`,
    })
  }
  return found
}

/** https://www.postgresql.org/docs/current/catalog-pg-class.html */
const KINDS: Readonly<Record<string, string>> = {
  p: 'partitioned',
  f: 'a foreign table',
  v: 'a view',
  m: 'a materialized view',
}

/**
 * Logs warnings.
 *
 * @throws {@link ConfigurationError} that names everything that guards do not open with.
 */
export function refuseUnfitTables(
  facts: SchemaFacts,
  schema: string,
  { consumer, logger }: Pick<ConsumerRegistration, 'consumer' | 'logger'>,
): void {
  refuseEncoding(facts.encoding)
  const errors: string[] = []
  for (const { severity, finding, remedy } of unfitTables(facts, schema)) {
    if (severity === 'error') errors.push(`${finding} ${remedy}`)
    else logger.warn({ consumer, finding, remedy }, 'a trigger may suppress changes of onceward')
  }
  if (facts.replicationRole === 'replica') {
    logger.warn(
      { consumer, remedy: 'alter role … reset session_replication_role' },
      '`session_replication_role` is replica for this login, so foreign keys do not act: pieces of large messages stay when their event goes',
    )
  }
  if (errors.length > 0) throw new ConfigurationError(errors.join('\n'))
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
