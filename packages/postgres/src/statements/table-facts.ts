import { quotedSchema } from './schema-name.ts'

/** What administrators can make of one table of onceward. */
export interface TableFacts {
  readonly name: string
  /** `relkind` of `pg_class`: `r` is an ordinary table. */
  readonly kind: string
  /** `relpersistence` of `pg_class`: `u` is an unlogged table. */
  readonly kept: string
  /** Rules that change inserts or updates. */
  readonly rules: number
}

/** What a guard needs to know of the tables before its first claim, as JSON. */
export interface SchemaFacts {
  /** Of the tables that guards write and rely on. Not of `leases`, which may be lost. */
  readonly tables: readonly TableFacts[]
}

const TABLES = [
  ...['processed_events', 'failed_events', 'failed_event_parts', 'event_results'],
  ...['refused_messages', 'refused_message_parts', 'suspect_messages', 'consumers', 'settings'],
]
  .map((name) => `'${name}'`)
  .join(', ')

/** Answers {@link SchemaFacts} as text; an expression for a select list. `schema` is quoted. */
export function schemaFacts(schema: string): string {
  return `(
  select json_build_object('tables', coalesce(json_agg(json_build_object(
    'name', c.relname, 'kind', c.relkind, 'kept', c.relpersistence,
    'rules', (select count(*) from pg_rewrite r where r.ev_class = c.oid and r.ev_type in ('2', '3'))
  ) order by c.relname), '[]'))
  from pg_class c
  where c.relnamespace = to_regnamespace('${schema.replaceAll("'", "''")}') and c.relname in (${TABLES})
)::text`
}

/** Answers the {@link SchemaFacts} of the schema of this name in the column `facts`. */
export const schemaFactsQuery = (schema?: string): string =>
  `select ${schemaFacts(quotedSchema(schema))} as facts`
