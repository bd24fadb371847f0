import { DELIVERY } from './attempts.ts'
import {
  endedRight,
  isToPublish,
  offeredAgain,
  REFUSED_DEAD_LETTER,
  takenAnswer,
  takenRight,
} from './dead-letters.ts'

export interface RefusedStatements {
  /** `$1` refused messages, `$2` consumer id. A message that is refused again keeps its one row. */
  readonly refuse: string
  /** `$1` refused id, `$2` token, `$3` ms. Takes the right to publish; answers the id unless another has it. */
  readonly takeRefused: string
  /** `$1` refused id. Answers its `DeadLetterRow`. */
  readonly readRefused: string
  /** `$1` refused id, `$2` token, `$3` whether it was published. Answers the id where the token is still its own. */
  readonly endRefused: string
  /** `$1` refused id. Deletes a replayed message that was handled, unless it was refused again meanwhile. */
  readonly resolveRefused: string
  /** `$1` consumer id, `$2` limit. Answers `DeadLetterRow`s, and offers them again only after a while. */
  readonly dueRefused: string
}

/**
 * All columns of a delivery come from one storing of it: the properties say whether the others are sealed. The pieces of a body
 * are always written again, and what was too large or is empty is taken again.
 */
const takenOver = (column: string): string =>
  `${column} = case when excluded.body_parts > 0 or (r.body = '' and r.body_parts = 0) then excluded.${column} else r.${column} end`

export function refusedStatements(schema: string): RefusedStatements {
  return {
    refuse: `
insert into ${schema}.refused_messages as r (refused_id, consumer_id, reason, error, key,
  source, properties, envelope, headers, body, body_bytes, body_parts)
select id, $2::text::integer, reason, error, key,
  source, decode(properties, 'base64'), decode(envelope, 'base64'), decode(headers, 'base64'),
  decode(body, 'base64'), "bodyBytes", "bodyParts"
from json_to_recordset($1::text::json) as m(id uuid, reason text, error text, key text, ${DELIVERY})
order by id
on conflict (refused_id) do update set
  times = r.times + 1, reason = excluded.reason, error = excluded.error,
  last_failed_at = clock_timestamp(), next_try = case when r.replay then now() else r.next_try end, replay = false,
  publisher = case when r.replay then null else r.publisher end,
  publish_until = case when r.replay then null else r.publish_until end,
  ${['properties', 'envelope', 'headers', 'body', 'body_bytes', 'body_parts'].map(takenOver).join(', ')}`,

    takeRefused: `
with dead as materialized (
  select refused_id from ${schema}.refused_messages
  where refused_id = $1::text::uuid and not replay for update skip locked
),
taken as (
  update ${schema}.refused_messages r set ${takenRight}
  from dead where r.refused_id = dead.refused_id and ${isToPublish('r')}
  returning r.refused_id::text as id, r.consumer_id
),${takenAnswer(schema)}`,

    readRefused: `
select ${REFUSED_DEAD_LETTER}::text as answer
from ${schema}.refused_messages r join ${schema}.consumers c on c.id = r.consumer_id
where r.refused_id = $1::text::uuid`,

    endRefused: `
update ${schema}.refused_messages set ${endedRight}
where refused_id = $1::text::uuid and publisher = $2::text::uuid
returning refused_id::text as answer`,

    resolveRefused: `
delete from ${schema}.refused_messages where refused_id = $1::text::uuid and replay`,

    dueRefused: `
with due as materialized (
  select refused_id from ${schema}.refused_messages
  where consumer_id = $1::text::integer and parked and next_try <= now() and (replay or ${isToPublish('refused_messages')})
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
