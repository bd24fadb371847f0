import { ConfigurationError } from '@onceward/core'
import type { SchemaFacts, TableFacts } from '../statements/table-facts.ts'

/** Something that an administrator has changed, so that guards cannot keep their promises. */
export interface UnfitTable {
  /** A sentence that names the table. */
  readonly finding: string
  /** A sentence that says what to do. */
  readonly remedy: string
}

/** @param schema - Quoted. */
export function unfitTables(facts: SchemaFacts, schema: string): readonly UnfitTable[] {
  return facts.tables.flatMap((table) => unfit(table, `${schema}.${table.name}`))
}

function unfit({ kept, kind, rules }: TableFacts, name: string): readonly UnfitTable[] {
  const found: UnfitTable[] = []
  if (kind !== 'r') {
    const what = KINDS[kind] ?? 'no table'
    found.push({
      finding: `${name} is ${what}: batches cannot be claimed in it, and it is not swept.`,
      remedy: `Put an ordinary table with its rows and its primary key in its place.`,
    })
  } else if (rules > 0) {
    found.push({
      finding: `${name} has rules for inserts or updates: PostgreSQL refuses \`on conflict\` there, and so every claim.`,
      remedy: `Drop them (\`drop rule … on ${name}\`), or use a trigger after the change.`,
    })
  }
  if (kept === 'u') {
    found.push({
      finding: `${name} is unlogged: a crash of PostgreSQL empties it, and then processed events run again.`,
      remedy: `Run \`alter table ${name} set logged\`.`,
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

/** @throws {@link ConfigurationError} that names everything that is unfit. */
export function refuseUnfitTables(facts: SchemaFacts, schema: string): void {
  const texts = unfitTables(facts, schema).map(({ finding, remedy }) => `${finding} ${remedy}`)
  if (texts.length > 0) throw new ConfigurationError(texts.join('\n'))
}
