import { audit } from './audit.ts'
import { takenRight } from './dead-letters.ts'

/** A dead letter goes back to its queue: it is freed, sent, and its message deleted once the broker has confirmed it. */
export interface RequeueStatements {
  /**
   * `$1` id, `$2` token, `$3` ms, `$4` who. Lets a delivery run the event, and takes the right to send its message. The
   * reason and the message stay until the broker has confirmed it, so it stays a dead letter. Answers the id.
   */
  readonly freeEvent: string
  readonly freeRefused: string
  /** `$1` id, `$2` token, `$3` who. Deletes the message where the token is still its own. Audits in any case. */
  readonly confirmEvent: string
  readonly confirmRefused: string
  /** `$1` id, `$2` token. Gives the right back; the dead letter stays freed. */
  readonly unconfirmEvent: string
  readonly unconfirmRefused: string
  /**
   * `$1` id, `$2` token, `$3` parked, `$4` published. The message was certainly not sent, so the refused message is as
   * before.
   */
  readonly restoreRefused: string
}

/** Dead letters that go back to their queue. */
export function requeueStatements(schema: string): RequeueStatements {
  const events = { table: `${schema}.failed_events`, id: 'event_id' }
  const refused = { table: `${schema}.refused_messages`, id: 'refused_id' }
  const unconfirm = ({ table, id }: typeof events, more = ''): string => `
update ${table} set publisher = null, publish_until = null${more}
where ${id} = $1::text::uuid and publisher = $2::text::uuid
returning ${id}::text as answer`

  return {
    freeEvent: `
with freed as (
  update ${events.table} set
    attempt = 0, no_verdict = 0, defers = 0, token = null, counted_at = null, next_try = now(), parked = false, alone = true,
    published = false, ${takenRight}
  where event_id = $1::text::uuid and reason is not null
  returning event_id, consumer_id
),
waiting as (
  update ${schema}.processed_events p set state = 'w' from freed where p.event_id = freed.event_id
)
${audit(schema, 'requeue', { from: 'freed', id: 'event_id', who: '$4' })}`,

    freeRefused: `
with freed as (
  update ${refused.table} set replay = true, parked = false, published = false, ${takenRight}
  where refused_id = $1::text::uuid
  returning refused_id, consumer_id
),
unread as (
  delete from ${schema}.suspect_messages m using freed where m.message_id = freed.refused_id
)
${audit(schema, 'requeue', { from: 'freed', id: 'refused_id', who: '$4' })}`,

    // The pieces go after their row, which a burial of the copy would have to wait for.
    confirmEvent: `
with sent as (
  update ${events.table} set
    reason = null, publisher = null, publish_until = null,
    source = null, properties = null, envelope = null, headers = null, body = null, body_bytes = null, body_parts = 0
  where event_id = $1::text::uuid and publisher = $2::text::uuid
  returning event_id
),
parts as (
  delete from ${schema}.failed_event_parts p using sent where p.event_id = sent.event_id
)
${audit(schema, 'requeued', { from: letterOf(schema), id: 'target', who: '$3' })}`,

    confirmRefused: `
with sent as (
  delete from ${refused.table} where refused_id = $1::text::uuid and publisher = $2::text::uuid
)
${audit(schema, 'requeued', { from: letterOf(schema), id: 'target', who: '$3' })}`,

    unconfirmEvent: unconfirm(events),
    unconfirmRefused: unconfirm(refused),
    restoreRefused: unconfirm(
      refused,
      ', replay = false, parked = $3::text::boolean, published = $4::text::boolean',
    ),
  }
}

/** The row may be gone: a guard has run the copy. What was freed is in the audit. */
const letterOf = (schema: string): string => `(
  select target, consumer_id from ${schema}.audit
  where target = $1::text::uuid and action = 'requeue' order by id desc limit 1
) as letter`
