import { offeredAgain, REFUSED_DEAD_LETTER } from './dead-letters.ts'

export interface RefusedStatements {
  /** `$1` refused messages, `$2` consumer id. A message that is refused again keeps its one row. */
  readonly refuse: string
  /** `$1` refused id. Locks its row unless it is held. */
  readonly lockRefused: string
  /** `$1` refused id. Answers its `DeadLetterRow`. */
  readonly readRefused: string
  /** `$1` refused id. */
  readonly markRefusedPublished: string
  /** `$1` refused id. Deletes a replayed message that was handled, unless it was refused again meanwhile. */
  readonly resolveRefused: string
  /** `$1` consumer id, `$2` limit. Answers `DeadLetterRow`s, and offers them again only after a while. */
  readonly dueRefused: string
}

export function refusedStatements(schema: string): RefusedStatements {
  return {
    refuse: `
insert into ${schema}.refused_messages as r (refused_id, consumer_id, reason, error, key,
  source, envelope, headers, body, body_bytes)
select id, $2::text::integer, reason, error, key,
  source, decode(envelope, 'base64'), decode(headers, 'base64'), decode(body, 'base64'), "bodyBytes"
from json_to_recordset($1::text::json) as m(id uuid, reason text, error text, key text, source text,
  envelope text, headers text, body text, "bodyBytes" bigint)
order by id
on conflict (refused_id) do update set
  times = r.times + 1, reason = excluded.reason, error = excluded.error,
  last_failed_at = clock_timestamp(), next_try = case when r.replay then now() else r.next_try end, replay = false`,

    lockRefused: `
select refused_id::text as answer from ${schema}.refused_messages
where refused_id = $1::text::uuid for update skip locked`,

    readRefused: `
select ${REFUSED_DEAD_LETTER}::text as answer
from ${schema}.refused_messages r join ${schema}.consumers c on c.id = r.consumer_id
where r.refused_id = $1::text::uuid`,

    markRefusedPublished: `
update ${schema}.refused_messages set published = true where refused_id = $1::text::uuid`,

    resolveRefused: `
delete from ${schema}.refused_messages where refused_id = $1::text::uuid and replay`,

    dueRefused: `
with due as materialized (
  select refused_id from ${schema}.refused_messages
  where consumer_id = $1::text::integer and parked and next_try <= now() and (replay or not published)
  order by next_try limit $2::text::integer for update skip locked
),
offered as (
  update ${schema}.refused_messages m set next_try = ${offeredAgain('m')}
  from due where m.refused_id = due.refused_id
)
select ${REFUSED_DEAD_LETTER}::text as answer
from due
join ${schema}.refused_messages r on r.refused_id = due.refused_id
join ${schema}.consumers c on c.id = r.consumer_id`,
  }
}
