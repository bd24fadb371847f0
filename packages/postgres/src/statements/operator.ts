import { audit } from './audit.ts'
import {
  EVENT_DEAD_LETTER,
  IS_LETTER,
  isBeingPublished,
  REFUSED_DEAD_LETTER,
  unpublished,
} from './dead-letters.ts'
import { isOmittedBody } from './delivery-columns.ts'

/** Actions of operators on dead letters, each under the lock of its row. */
export interface OperatorStatements {
  /**
   * `$1` consumer, `$2` reason, `$3` kind, `$4` since, `$5` until (ISO or null), `$6`, `$7` the last one seen,
   * `$8` limit. Answers `{ at, deadLetter }`, oldest first.
   */
  readonly listDeadLetters: string
  /** `$1`–`$5`, `$8` as `listDeadLetters`. Answers ids only. */
  readonly listIds: string
  /** Limits the wait for a row that a run or another operator holds. */
  readonly boundOperator: string
  /** `$1` id. Waits for the lock; answers the id. */
  readonly lockEventRow: string
  readonly lockRefusedRow: string
  /**
   * `$1` ids, `$2` who. Parks the events, due now, and clears their counters, tokens and publications. Answers the ids.
   * Rows that another transaction holds and rows that are not open dead letters are left out, without a wait.
   */
  readonly replayEvents: string
  /** As `replayEvents`, with `$3` why, for done events without a statement of their handler. */
  readonly rerunEvents: string
  readonly replayRefused: string
  /**
   * `$1` ids, `$2` who, `$3` why. Deletes the deliveries. The events stay dead, so their copies do not run. Answers the ids
   * as `replayEvents` does.
   */
  readonly discardEvents: string
  readonly discardRefused: string
}

const OPERATOR_WAIT_MS = 15_000

export function operatorStatements(schema: string): OperatorStatements {
  const events = `${schema}.failed_events f
    join ${schema}.processed_events p on p.event_id = f.event_id
    join ${schema}.consumers c on c.id = f.consumer_id
    where ${IS_LETTER} and $3::text is distinct from 'refused'
    and ${filtered('f', 'f.event_id')}`
  const refused = `${schema}.refused_messages r
    join ${schema}.consumers c on c.id = r.consumer_id
    where not (r.replay and r.parked) and $3::text is distinct from 'event' and ${filtered('r', 'r.refused_id')}`
  const freeEvents = (states: string): string => `free as materialized (
  select event_id as id from ${schema}.processed_events
  where event_id = any($1::text::uuid[]) and state in (${states}) order by event_id for update skip locked
)`
  const freeRefused = `free as materialized (
  select refused_id as id from ${schema}.refused_messages
  where refused_id = any($1::text::uuid[]) order by refused_id for update skip locked
)`
  return {
    listDeadLetters: `
select json_build_object('at', ${iso('at')}, 'deadLetter', dead_letter)::text as answer from (
  (select f.last_failed_at as at, f.event_id as id, ${EVENT_DEAD_LETTER} as dead_letter
   from ${events} order by 1, 2 limit $8::text::bigint)
  union all
  (select r.last_failed_at, r.refused_id, ${REFUSED_DEAD_LETTER}
   from ${refused} order by 1, 2 limit $8::text::bigint)
) as dead_letters order by at, id limit $8::text::bigint`,

    listIds: `
select id::text as answer from (
  (select f.last_failed_at as at, f.event_id as id from ${events})
  union all
  (select r.last_failed_at, r.refused_id from ${refused})
) as dead_letters order by at, id limit $8::text::bigint`,

    boundOperator: `
select set_config('lock_timeout', '${OPERATOR_WAIT_MS}', true) as answer`,

    lockEventRow: `
select event_id::text as answer from ${schema}.processed_events where event_id = $1::text::uuid for update`,

    lockRefusedRow: `
select refused_id::text as answer from ${schema}.refused_messages where refused_id = $1::text::uuid for update`,

    replayEvents: `
with ${freeEvents("'x', 'w'")},
replayed as (
  update ${schema}.failed_events f set ${replayed}
  from free where f.event_id = free.id and f.reason is not null and f.discarded_at is null and ${isFree('f')}
  returning f.event_id, f.consumer_id
),
waiting as (
  update ${schema}.processed_events p set state = 'w' from replayed where p.event_id = replayed.event_id
)
${audit(schema, 'replay', { from: 'replayed', id: 'event_id' })}`,

    // A trigger of processed_events makes Redis forget what it knows of done events.
    rerunEvents: `
with ${freeEvents("'d'")},
replayed as (
  update ${schema}.failed_events f set ${replayed}
  from free where f.event_id = free.id and f.reason = 'late-statement' and f.discarded_at is null and ${isFree('f')}
  returning f.event_id, f.consumer_id
),
waiting as (
  update ${schema}.processed_events p set state = 'w' from replayed where p.event_id = replayed.event_id
)
${audit(schema, 'rerun', { from: 'replayed', id: 'event_id', why: '$3::text' })}`,

    replayRefused: `
with ${freeRefused},
replayed as (
  update ${schema}.refused_messages r set replay = true, parked = true, next_try = now(), ${unpublished}
  from free where r.refused_id = free.id and not (r.replay and r.parked) and ${isFree('r')}
  returning r.refused_id, r.consumer_id
),
unread as (
  delete from ${schema}.suspect_messages m using replayed where m.message_id = replayed.refused_id
)
${audit(schema, 'replay', { from: 'replayed', id: 'refused_id' })}`,

    discardEvents: `
with ${freeEvents("'x', 'w', 'd'")},
discarded as (
  update ${schema}.failed_events f set
    discarded_at = now(), published = true, publisher = null, publish_until = null, parked = false,
    source = null, properties = null, envelope = null, headers = null, body = null, body_parts = 0
  from free where f.event_id = free.id and f.reason is not null and f.discarded_at is null and ${isFree('f')}
  returning f.event_id, f.consumer_id
),
parts as (
  delete from ${schema}.failed_event_parts p using discarded where p.event_id = discarded.event_id
),
dead as (
  update ${schema}.processed_events p set state = 'x' from discarded
  where p.event_id = discarded.event_id and p.state = 'w'
)
${audit(schema, 'discard', { from: 'discarded', id: 'event_id', why: '$3::text' })}`,

    discardRefused: `
with ${freeRefused},
discarded as (
  delete from ${schema}.refused_messages r
  using free where r.refused_id = free.id and not (r.replay and r.parked) and ${isFree('r')}
  returning r.refused_id, r.consumer_id
)
${audit(schema, 'discard', { from: 'discarded', id: 'refused_id', why: '$3::text' })}`,
  }
}

/** Assignments: the event is parked, due now, with a full set of attempts. */
const replayed = `attempt = 0, no_verdict = 0, defers = 0, token = null, counted_at = null, next_try = now(), reason = null,
    parked = true, alone = true, ${unpublished}`

/** It is not being published, and its delivery is stored. */
const isFree = (row: string): string => `not ${isBeingPublished(row)} and not ${isOmittedBody(row)}`

function filtered(row: string, id: string): string {
  return `($1::text is null or c.name = $1::text)
    and ($2::text is null or ${row}.reason = $2::text)
    and ($4::text is null or ${row}.last_failed_at >= $4::text::timestamptz)
    and ($5::text is null or ${row}.last_failed_at < $5::text::timestamptz)
    and ($6::text is null or (${row}.last_failed_at, ${id}) > ($6::text::timestamptz, $7::text::uuid))`
}

/** Microseconds, and read back alike whatever the session's DateStyle and time zone are. */
const iso = (column: string): string =>
  `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
