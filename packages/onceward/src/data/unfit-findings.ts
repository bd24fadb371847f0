import { type SchemaFacts, schemaFactsQuery, unfitTables } from '@onceward/postgres/operator'
import type { Database, Query } from './database.ts'
import type { Finding } from './finding.ts'

/** Tables that administrators have changed so that guards do not open on them, or may not claim. */
export async function unfitFindings(
  query: Query,
  { schema, quoted }: Pick<Database, 'schema' | 'quoted'>,
): Promise<readonly Finding[]> {
  const [row] = await query<{ readonly facts: string }>(schemaFactsQuery(schema))
  if (row === undefined) return []
  const facts = JSON.parse(row.facts) as SchemaFacts
  return unfitTables(facts, quoted).map((unfit) => ({ ...unfit, about: 'tables' }))
}
