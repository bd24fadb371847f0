export interface RetentionStatements {
  /** One process at a time, until the transaction ends. Answers `lock`. */
  readonly trySweepLock: string
  /** Says, for all guards, that the clock of the server is right. */
  readonly confirmClock: string
  /** Answers the next page to sweep, the number of pages, and what shows whether the clock is right: `Cursor`. */
  readonly readSweepCursor: string
  /** `$1` start of the first page, `$2` of the one after the last, as tids. Answers how many events it deleted. */
  readonly sweepPages: string
  /** `$1` next page. */
  readonly moveSweepCursor: string
  /** `$1` the most rows. Deletes old dead letters, and events with failures that no broker can redeliver. */
  readonly sweepTroubled: string
  /** `$1` the most rows. */
  readonly sweepRefused: string
  /** `$1` the most rows. */
  readonly sweepSuspects: string
}

/** A longer statement of a step is cancelled, so that the next step is smaller. Shorter than the guard waits for an answer. */
const STEP_MS = 10_000

const AT_LEAST = `interval '30 days'`
/** Dead letters are kept for 30 days, or for the dedup window if it is longer. */
const kept = `greatest(${AT_LEAST}, c.dedup_window_ms * interval '1 millisecond')`

/** Whether a row may be that old. An index can answer this part of the rule. */
const isAged = (row: string): string => `${row}.last_failed_at < now() - ${AT_LEAST}`

/**
 * Whether a dead letter has arrived where it goes. Where its consumer has no dead-letter place, its row is the place. The
 * row is all that is left of a dead letter that waits for its place longer than the broker keeps the message.
 */
const isSettled = (row: string): string => `(${row}.published or not c.has_place)`

export function retentionStatements(schema: string): RetentionStatements {
  return {
    // A trigger of processed_events changes the epoch when anything but the sweep deletes done rows.
    trySweepLock: `
select set_config('onceward.sweep', 'on', true), set_config('statement_timeout', '${STEP_MS}', true),
  pg_try_advisory_xact_lock(hashtextextended('onceward.sweep:${schema.replaceAll("'", "''")}', 0))::text as answer`,

    confirmClock: `select ${schema}.trust_clock()`,

    readSweepCursor: `
select json_build_object('page', sweep_cursor, 'pages',
  pg_relation_size('${schema.replaceAll("'", "''")}.processed_events') / current_setting('block_size')::bigint,
  'nowMs', floor(extract(epoch from now()) * 1000), 'sweptMs', floor(extract(epoch from swept_at) * 1000), 'clock', clock,
  'shortestWindowMs', (select min(dedup_window_ms) from ${schema}.consumers))::text as answer
from ${schema}.settings`,

    // A scan of a range of the heap, with no index: rows are dead on the pages where they were alive, and an index
    // on processed_at would cost every insert.
    sweepPages: `
with old as (
  delete from ${schema}.processed_events p using ${schema}.consumers c
  where p.ctid >= $1::text::tid and p.ctid < $2::text::tid
    and p.state = 'd' and c.id = p.consumer_id
    and p.processed_at < now() - c.dedup_window_ms * interval '1 millisecond'
  returning p.event_id
),
results as (
  delete from ${schema}.event_results e using old where e.event_id = old.event_id
),
-- A done event has a row of failures if its handler sent a COMMIT of its own.
failed as (
  delete from ${schema}.failed_events f using old where f.event_id = old.event_id
)
select count(*)::text as answer from old`,

    moveSweepCursor: `
update ${schema}.settings set sweep_cursor = $1::text::bigint, swept_at = greatest(swept_at, now())`,

    // Parked events stay until an operator decides, because no broker can redeliver them. So do those whose message may
    // not be in their queue (`freeEvent`), if their dead letter would stay.
    // One look into the table of all events for each old one of failed_events: a plan that reads all events would take
    // longer than a step may on a large table, and the sweep would never end.
    // The row of an event is locked as it is by then, and its failures are as they were when the statement began: those
    // that have changed since, as by a replay, stay.
    sweepTroubled: `
with aged as materialized (
  select f.event_id, f.reason, f.last_failed_at, f.counted_at, f.next_try, ${kept} as kept
  from ${schema}.failed_events f join ${schema}.consumers c on c.id = f.consumer_id
  where ${isAged('f')}
    and case when f.reason is null then not f.parked else f.discarded_at is not null or ${isSettled('f')} end
),
old as materialized (
  select p.event_id, f.last_failed_at, f.counted_at, f.next_try from aged f cross join lateral (
    select p.event_id from ${schema}.processed_events p
    where p.event_id = f.event_id and case
      when p.state = 'x' then f.last_failed_at
      when p.state in ('r', 'w') and f.reason is not null then greatest(f.last_failed_at, f.next_try)
      when p.state in ('r', 'w') then greatest(f.last_failed_at, f.counted_at, f.next_try)
    end < now() - f.kept
    for update skip locked
  ) p
  limit $1::text::bigint
),
failed as (
  delete from ${schema}.failed_events f using old
  where f.event_id = old.event_id and (f.last_failed_at, f.counted_at, f.next_try)
    is not distinct from (old.last_failed_at, old.counted_at, old.next_try)
  returning f.event_id
)
delete from ${schema}.processed_events p using failed where p.event_id = failed.event_id`,

    sweepRefused: `
delete from ${schema}.refused_messages r where r.refused_id = any(array(
  select old.refused_id from ${schema}.refused_messages old join ${schema}.consumers c on c.id = old.consumer_id
  where not old.replay and ${isSettled('old')} and ${isAged('old')} and old.last_failed_at < now() - ${kept}
  order by old.refused_id limit $1::text::bigint for update of old skip locked
))`,

    sweepSuspects: `
delete from ${schema}.suspect_messages m where m.message_id = any(array(
  select old.message_id from ${schema}.suspect_messages old join ${schema}.consumers c on c.id = old.consumer_id
  where old.counted_at < now() - ${kept}
  order by old.message_id limit $1::text::bigint for update of old skip locked
))`,
  }
}
