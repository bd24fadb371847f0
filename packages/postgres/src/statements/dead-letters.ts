import { YOUNG_MS } from '@onceward/core/adapter'

export interface DeadLetterStatements {
  /** `$1` event id, `$2` token, `$3` ms. Takes the right to publish; answers the id unless another has it. */
  readonly takeEvent: string
  /** `$1` event id. Answers its `DeadLetterRow`. */
  readonly readEvent: string
  /** `$1` event id, `$2` token, `$3` whether it was published. Answers the id where the token is still its own. */
  readonly endEvent: string
  /**
   * `$1` consumer id, `$2` limit, `$3` event ids to leave out. Answers `DeadLetterRow`s, and offers dead letters again only
   * after a while.
   */
  readonly dueEvents: string
}

/** A dead letter with its delivery. Instants in ms since the epoch. */
export interface DeadLetterRow {
  readonly kind: 'event' | 'refused'
  readonly id: string
  readonly consumer: string
  readonly key: string | null
  readonly tenant: string | null
  readonly reason: string | null
  readonly error: string | null
  readonly attempts: number
  readonly firstFailedAtMs: number
  readonly lastFailedAtMs: number
  readonly published: boolean
  /** A right to publish it is running. */
  readonly publishing: boolean
  readonly parked: boolean
  readonly source: string
  readonly properties: string
  readonly envelope: string | null
  readonly headers: string
  readonly body: string
  readonly bodyBytes: number
  readonly bodyParts: number
  /** Of `processed_events`; null for refused messages. */
  readonly state: 'd' | 'r' | 'w' | 'x' | null
  readonly fingerprint: string | null
  /** Refused messages: an operator asked for a run. */
  readonly replay: boolean
  /** Buried events: an operator discarded it, and its delivery is deleted. */
  readonly discarded: boolean
}

const ms = (column: string): string => `floor(extract(epoch from ${column}) * 1000)`

/**
 * Whether this server's clock was set back since the time was written. A time that was computed then, such as that of the
 * next try, would hold the event until the clock has caught up.
 */
export const isAhead = (time: string): string =>
  `coalesce(${time} > clock_timestamp() + interval '${YOUNG_MS} milliseconds', false)`

/** No right to publish is longer. */
const LONGEST_RIGHT = "interval '10 minutes'"

/** Whether a right to publish is running. One that ends later was taken before this server's clock was set back. */
export const isBeingPublished = (row: string): string =>
  `coalesce(${row}.publish_until > clock_timestamp() and ${row}.publish_until <= clock_timestamp() + ${LONGEST_RIGHT}, false)`

export const isToPublish = (row: string): string =>
  `not ${row}.published and not ${isBeingPublished(row)}`

/** Assignments of `takeEvent` and `takeRefused`. */
export const takenRight = `publisher = $2::text::uuid, publish_until = clock_timestamp() + $3::text::double precision * interval '1 millisecond'`

/**
 * The end of `takeEvent` and `takeRefused`: their consumer has a dead-letter place, so what is not published yet is kept.
 */
export const takenAnswer = (schema: string): string => `
place as (
  update ${schema}.consumers c set has_place = true
  from taken where c.id = taken.consumer_id and not c.has_place
)
select id as answer from taken`

/** Assignments of `endEvent` and `endRefused`. */
export const endedRight = 'published = $3::text::boolean, publisher = null, publish_until = null'

/** Assignments of every change that makes a dead letter another one: a late publisher must not mark that one. */
export const unpublished = 'published = false, publisher = null, publish_until = null'

/**
 * Whether an event `p` with failures `f` waits for an operator: it is dead, is being sent back to its queue, or is done
 * without a statement of its handler.
 */
export const IS_LETTER: string = `(p.state in ('x', 'w') and f.reason is not null or ${isLate('p', 'f')})
  and f.discarded_at is null`

/** Whether an event is done without a statement of its handler. */
export function isLate(event: string, failures: string): string {
  return `${event}.state = 'd' and ${failures}.reason = 'late-statement'`
}

/** JSON pairs of both kinds of dead letters. `row` is the alias of the table. */
const common = (row: string): string => `
  'consumer', c.name, 'key', ${row}.key, 'reason', ${row}.reason, 'error', ${row}.error,
  'firstFailedAtMs', ${ms(`${row}.first_failed_at`)},
  'lastFailedAtMs', ${ms(`${row}.last_failed_at`)}, 'published', ${row}.published,
  'publishing', ${isBeingPublished(row)}, 'parked', ${row}.parked,
  'source', ${row}.source, 'properties', encode(${row}.properties, 'base64'), 'envelope', encode(${row}.envelope, 'base64'),
  'headers', encode(${row}.headers, 'base64'), 'body', encode(${row}.body, 'base64'), 'bodyBytes', ${row}.body_bytes,
  'bodyParts', ${row}.body_parts`

/** JSON of a row of `failed_events f` with `processed_events p` and `consumers c`. */
export const EVENT_DEAD_LETTER: string = `json_build_object('kind', 'event', 'id', f.event_id, 'tenant', f.tenant,
  'state', p.state, 'fingerprint', p.fingerprint::text, 'attempts', f.attempt, 'replay', false, 'discarded', f.discarded_at is not null, ${common('f')})`

/** JSON of a row of `refused_messages r` with `consumers c`. */
export const REFUSED_DEAD_LETTER: string = `json_build_object('kind', 'refused', 'id', r.refused_id, 'tenant', null,
  'state', null, 'fingerprint', null, 'attempts', 0, 'replay', r.replay, 'discarded', false, ${common('r')})`

/**
 * When an unpublished dead letter is offered to the poller again: from 5 s to 10 min, the older the later. A dead letter
 * that no guard can publish must neither be retried in a tight loop nor block the others (trap T26).
 */
export const offeredAgain = (row: string): string =>
  `clock_timestamp() + least(greatest(clock_timestamp() - ${row}.last_failed_at, interval '5 seconds'), interval '10 minutes')`

export function deadLetterStatements(schema: string): DeadLetterStatements {
  return {
    takeEvent: `
with dead as materialized (
  select event_id from ${schema}.processed_events
  where event_id = $1::text::uuid and state = 'x' for no key update skip locked
),
taken as (
  update ${schema}.failed_events f set ${takenRight}
  from dead where f.event_id = dead.event_id and f.reason is not null and ${isToPublish('f')}
  returning f.event_id::text as id, f.consumer_id
),${takenAnswer(schema)}`,

    readEvent: `
select ${EVENT_DEAD_LETTER}::text as answer
from ${schema}.processed_events p
join ${schema}.failed_events f on f.event_id = p.event_id
join ${schema}.consumers c on c.id = f.consumer_id
where p.event_id = $1::text::uuid`,

    // One row, fenced by the token, which every other change of a dead letter clears: no lock on processed_events.
    endEvent: `
update ${schema}.failed_events set ${endedRight}
where event_id = $1::text::uuid and publisher = $2::text::uuid
returning event_id::text as answer`,

    // The count decides again under its lock; here, events that run elsewhere are only skipped. `for key share` leaves the
    // rows to that count: it skips locked rows too, and such an event would wait for the next poll.
    dueEvents: `
with due as materialized (
  select p.event_id
  from ${schema}.processed_events p join ${schema}.failed_events f on f.event_id = p.event_id
  where f.consumer_id = $1::text::integer and f.parked and f.next_try <= now() and p.event_id <> all ($3::text::uuid[]) and case p.state
    when 'w' then true
    when 'r' then f.counted_at < clock_timestamp() - interval '${YOUNG_MS} milliseconds' or ${isAhead('f.counted_at')}
    when 'x' then ${isToPublish('f')}
    else false
  end
  order by f.next_try limit $2::text::integer for key share of p skip locked
),
dead as materialized (
  select f.event_id from due join ${schema}.failed_events f on f.event_id = due.event_id
  where f.reason is not null for no key update of f skip locked
),
offered as (
  update ${schema}.failed_events f set next_try = ${offeredAgain('f')}
  from dead where f.event_id = dead.event_id
)
select ${EVENT_DEAD_LETTER}::text as answer
from due
join ${schema}.processed_events p on p.event_id = due.event_id
join ${schema}.failed_events f on f.event_id = due.event_id
join ${schema}.consumers c on c.id = f.consumer_id
where f.reason is null or due.event_id in (select event_id from dead)`,
  }
}
