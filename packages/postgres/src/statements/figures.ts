import { OWN_TABLES } from './own-tables.ts'
import { workerStatements } from './workers.ts'

export interface FigureStatements {
  /**
   * `$1` consumer id. Answers an `InboxFigures`. Reads the newest dead letters only, by index, and asks the catalogue
   * about the tables, so it costs milliseconds however large they are.
   */
  readonly readFigures: string
}

/** The newest dead letters of all consumers among which those of this one are counted. */
const MOST_COUNTED = 10_000

export function figureStatements(schema: string): FigureStatements {
  const newest = (table: string, columns: string, condition: string): string => `
    (select consumer_id, ${columns} from ${schema}.${table} where ${condition}
     order by last_failed_at desc limit ${MOST_COUNTED})`
  // Without a dead-letter place, a dead letter has nothing to wait for.
  const parked = (table: string, isToRun: string): string => `
    select next_try from ${schema}.${table} where parked and consumer_id = $1::text::integer
    and (${isToRun} or (select has_place from ${schema}.consumers where id = $1::text::integer))`

  return {
    readFigures: `
with dead as (
  select reason, count(*) as letters from (
    ${newest('failed_events', 'reason, discarded_at', 'reason is not null')}
    union all
    ${newest('refused_messages', 'case when not replay then reason end, null::timestamptz', 'true')}
  ) as letters
  where consumer_id = $1::text::integer and reason is not null and discarded_at is null
  group by reason
),
parked as (
  select count(*) as events, min(next_try) as oldest from (
    (${parked('failed_events', 'reason is null')} order by next_try limit ${MOST_COUNTED})
    union all
    (${parked('refused_messages', 'replay')} order by next_try limit ${MOST_COUNTED})
  ) as events
)
select json_build_object(
  'deadLetters', (select coalesce(json_object_agg(reason, letters), '{}'::json) from dead),
  'parked', (select events from parked),
  'parkedForMs', (select greatest(0, extract(epoch from now() - oldest) * 1000)::bigint from parked),
  'workerSilencesMs', ${workerStatements(schema).workerSilences},
  'tables', (
    select json_agg(json_build_object(
      'name', relname, 'bytes', pg_total_relation_size(oid), 'rows', greatest(0, reltuples)::bigint
    ) order by relname)
    from pg_class where relkind = 'r' and relname in (${OWN_TABLES})
      and relnamespace = '${schema.replaceAll("'", "''")}'::regnamespace
  )
)::text as answer`,
  }
}
