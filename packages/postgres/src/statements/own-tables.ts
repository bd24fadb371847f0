/** Those that guards write and rely on. Not `leases`, `outbox_leases` and `workers`, which may be lost. */
const RELIED_ON = [
  ...['processed_events', 'failed_events', 'failed_event_parts', 'event_results'],
  ...[
    'refused_messages',
    'refused_message_parts',
    'suspect_messages',
    'consumers',
    'settings',
    'outbox_messages',
    'kafka_offsets',
  ],
]

const listed = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(', ')

/** Every table that `migrate` makes, as a list for SQL: the schema may have tables of others, such as `public`. */
export const OWN_TABLES: string = listed([
  ...RELIED_ON,
  'leases',
  'outbox_leases',
  'workers',
  'audit',
  'migrations',
])

/**
 * The tables that guards rely on and that are unlogged or no ordinary tables, as JSON text; an expression for a select
 * list. `schema` is quoted.
 */
export const changedTables = (schema: string): string => `(
  select coalesce(json_agg(json_build_object('name', relname, 'isOrdinary', relkind = 'r') order by relname), '[]') from pg_class
  where relnamespace = to_regnamespace('${schema.replaceAll("'", "''")}') and (relpersistence = 'u' or relkind <> 'r')
    and relkind in ('r', 'p', 'v', 'm', 'f') and relname in (${listed(RELIED_ON)})
)::text`
