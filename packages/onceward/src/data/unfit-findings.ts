import { changedTables, unfitTables } from '@onceward/postgres/operator'
import type { Database, Query } from './database.ts'
import type { Finding } from './finding.ts'

/** Tables that administrators have changed so that guards do not open on them. */
export async function unfitFindings(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<readonly Finding[]> {
  const [row] = await query<{ readonly names: string }>(`select ${changedTables(quoted)} as names`)
  if (row === undefined) return []
  return unfitTables(row.names, quoted).map((unfit) => ({
    ...unfit,
    severity: 'error',
    about: 'tables',
  }))
}
