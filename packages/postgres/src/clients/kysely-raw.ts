import type { CompiledQuery } from 'kysely'

/**
 * A text for Kysely. `CompiledQuery.raw` makes the same, but other libraries contain a Kysely that users of theirs cannot
 * import.
 */
export function rawQuery(sql: string, parameters: readonly unknown[] = []): CompiledQuery {
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] } as const
  return { sql, query, parameters, queryId: { queryId: '' } }
}
