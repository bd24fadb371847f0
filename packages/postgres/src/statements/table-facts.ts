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
  /** Triggers before the change of a row, which suppress the change if they return null. Not those of `migrate`. */
  readonly triggers: readonly string[]
  /** Publications of its changes, if it has no replica identity: PostgreSQL refuses to change its rows. */
  readonly publications: readonly string[]
}

/** What a guard needs to know of the tables before its first claim, as JSON. */
export interface SchemaFacts {
  /** Of the database. */
  readonly encoding: string
  /** `session_replication_role` of new sessions of this login. */
  readonly replicationRole: string
  /** Of the tables that guards write and rely on. Not of `leases`, which may be lost. */
  readonly tables: readonly TableFacts[]
}

/** Those that guards write and rely on. */
const RELIED_ON = [
  ...['processed_events', 'failed_events', 'failed_event_parts', 'event_results'],
  ...['refused_messages', 'refused_message_parts', 'suspect_messages', 'consumers', 'settings'],
]

const listed = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(', ')

/** Every table that `migrate` makes, as a list for SQL: the schema may have tables of others, such as `public`. */
export const OWN_TABLES: string = listed([...RELIED_ON, 'leases', 'audit', 'migrations'])

/** Bits of `tgtype` in `pg_trigger`: `TRIGGER_TYPE_ROW` and `TRIGGER_TYPE_BEFORE`. */
const BEFORE_ROW = 3

/** Evaluated first: what a publication `for all tables` contains is a long list. */
const LACKS_IDENTITY = `case c.relreplident
        when 'f' then false
        when 'n' then true
        else not exists (
          select from pg_index i where i.indrelid = c.oid
            and case c.relreplident when 'd' then i.indisprimary else i.indisreplident end
        )
      end`

/** Answers {@link SchemaFacts} as text; an expression for a select list. `schema` is quoted. */
export function schemaFacts(schema: string): string {
  return `(
  select json_build_object(
    'encoding', current_setting('server_encoding'),
    'replicationRole', (select reset_val from pg_settings where name = 'session_replication_role'),
    'tables', coalesce(json_agg(json_build_object(
    'name', c.relname, 'kind', c.relkind, 'kept', c.relpersistence,
    'rules', (select count(*) from pg_rewrite r where r.ev_class = c.oid and r.ev_type in ('2', '3')),
    'triggers', array(
      select t.tgname from pg_trigger t
      where t.tgrelid = c.oid and t.tgtype & ${BEFORE_ROW} = ${BEFORE_ROW} and t.tgenabled in ('O', 'A')
        and not t.tgisinternal and t.tgname <> 'forget_restored' order by t.tgname
    ),
    'publications', array(
      select p.pubname from pg_publication p
      where ${LACKS_IDENTITY} and (p.pubupdate or p.pubdelete) and exists (
        select from pg_publication_tables t
        where t.pubname = p.pubname and t.schemaname = n.nspname and t.tablename = c.relname
      )
      order by p.pubname
    )
  ) order by c.relname), '[]'))
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relnamespace = to_regnamespace('${schema.replaceAll("'", "''")}') and c.relname in (${listed(RELIED_ON)})
)::text`
}

/** Answers the {@link SchemaFacts} of the schema of this name in the column `facts`. */
export const schemaFactsQuery = (schema?: string): string =>
  `select ${schemaFacts(quotedSchema(schema))} as facts`
