import { migrationSql, SCHEMA_VERSION } from '@onceward/postgres/operator'
import { Failure } from '../failure.ts'
import type { Database, Query } from './database.ts'

/** Which tables are there, against those that this release makes. */
export type Tables =
  | { readonly kind: 'missing' }
  /** Older than this release. `pending` names the migrations that `migrate` would apply. */
  | { readonly kind: 'older'; readonly version: number; readonly pending: readonly string[] }
  | { readonly kind: 'current'; readonly version: number }
  /** Of a newer release, which this one can use. */
  | { readonly kind: 'newer'; readonly version: number; readonly readableFrom: number }
  /** Of a newer release, which this one cannot use. */
  | { readonly kind: 'too-new'; readonly version: number; readonly readableFrom: number }

interface VersionRow {
  readonly version: number
  readonly readableFrom: number
}

export async function readTables(query: Query, { schema, quoted }: TablesOf): Promise<Tables> {
  const [found] = await query<{ readonly table: string | null }>(
    'select to_regclass($1)::text as "table"',
    [`${quoted}.migrations`],
  )
  if (found?.table == null) return { kind: 'missing' }
  const [row] = await query<VersionRow>(`
    select coalesce(max(version), 0) as version,
      coalesce(max(coalesce(readable_from, version)), 0) as "readableFrom" from ${quoted}.migrations`)
  const { version = 0, readableFrom = 0 } = row ?? {}
  if (version < SCHEMA_VERSION) {
    const pending = migrationSql(schema, version).map(({ name }) => name)
    return version === 0 ? { kind: 'missing' } : { kind: 'older', version, pending }
  }
  if (version === SCHEMA_VERSION) return { kind: 'current', version }
  return { kind: readableFrom > SCHEMA_VERSION ? 'too-new' : 'newer', version, readableFrom }
}

type TablesOf = Pick<Database, 'schema' | 'quoted'>

/** What to do about tables that are not current; undefined if this release can use them. */
export function refusal(
  tables: Tables,
  { schema, place }: Pick<Database, 'schema' | 'place'>,
): string | undefined {
  const where = `in schema "${schema}" of ${place}`
  switch (tables.kind) {
    case 'missing':
      return `There are no tables of onceward ${where}. Run \`npx onceward migrate\`, or give the schema with --schema.`
    case 'older':
      return `The tables ${where} have version ${tables.version}, this command needs ${SCHEMA_VERSION}. Run \`npx onceward migrate\`, or use the command of the release that made them.`
    case 'too-new':
      return `The tables ${where} have version ${tables.version}, this command knows ${SCHEMA_VERSION}. Update the package \`onceward\`: the tables can be used from version ${tables.readableFrom} on.`
    case 'current':
    case 'newer':
      return undefined
    default:
      return tables satisfies never
  }
}

/** Reads, once the tables are known to be of a version that this release can use. */
export async function readTablesOf<Result>(
  database: Database,
  work: (query: Query) => Promise<Result>,
): Promise<Result> {
  return database.read(async (query) => {
    const refused = refusal(await readTables(query, database), database)
    if (refused !== undefined) throw new Failure(refused)
    return work(query)
  })
}

/** Before a change: {@link Failure} if the tables are not of a version that this release can use. */
export async function demandTables(database: Database): Promise<void> {
  await readTablesOf(database, async () => undefined)
}
