import { audit } from './audit.ts'
import { IS_LETTER } from './dead-letters.ts'

/** A consumer that is gone, and is no longer shown. */
export interface RemovalStatements {
  /** `$1` consumer. Locks its row. Answers a `LeavingRow` if it has registered. */
  readonly lockLeaving: string
  /** `$1` consumer, `$2` by, `$3` why. Answers the consumer. */
  readonly removeConsumer: string
}

/** Answer of `lockLeaving`. */
export interface LeavingRow {
  /** Names of the workers whose last heartbeat is young. */
  readonly workers: readonly string[]
  /** Whether a guard that sends no heartbeats has registered lately, as one in a Lambda function does. */
  readonly isRegistered: boolean
  /** Events that run with no recorded result, or wait. */
  readonly waiting: number
  readonly deadLetters: number
}

/** Its action in `audit`. */
export const REMOVE = 'remove'

/** Whether an operator has removed the consumer, and no guard of it has registered since. */
export const isRemoved = (row: string): string =>
  `coalesce(${row}.removed_at >= ${row}.seen_at, false)`

/** As {@link WORKER_SILENT_MS}. */
const SILENT = `interval '90 seconds'`
/** A guard that runs registers within an hour. */
const UNREGISTERED = `interval '2 hours'`

export function removalStatements(schema: string): RemovalStatements {
  const ofEvents = `${schema}.failed_events f join ${schema}.processed_events p on p.event_id = f.event_id
      where f.consumer_id = c.id`
  const ofMessages = `${schema}.refused_messages r where r.consumer_id = c.id`
  const lastBeat = `greatest(c.worker_ended_at, (select max(seen_at) from ${schema}.workers w where w.consumer_id = c.id))`
  return {
    lockLeaving: `
select json_build_object(
  'workers', (select coalesce(json_agg(w.name order by w.name), '[]'::json) from ${schema}.workers w
    where w.consumer_id = c.id and w.seen_at > now() - ${SILENT}),
  'isRegistered', c.seen_at > now() - ${UNREGISTERED}
    and c.seen_at > coalesce(${lastBeat}, '-infinity') + ${SILENT},
  'waiting', (select count(*) from ${ofEvents} and p.state in ('r', 'w') and f.reason is null)
    + (select count(*) from ${ofMessages} and r.replay and r.parked),
  'deadLetters', (select count(*) from ${ofEvents} and ${IS_LETTER})
    + (select count(*) from ${ofMessages} and not (r.replay and r.parked))
)::text as answer
from ${schema}.consumers c where c.name = $1::text for update of c`,

    removeConsumer: `
with changed as (
  update ${schema}.consumers set removed_at = now() where name = $1::text returning id as consumer_id
)
${audit(schema, REMOVE, { from: 'changed', id: 'null::uuid', why: '$3::text', answer: '$1::text' })}`,
  }
}
