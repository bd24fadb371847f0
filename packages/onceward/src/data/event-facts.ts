import { messageTypeOf, sentId } from '@onceward/core/ports'
import { escapeText } from '@onceward/postgres/operator'
import type { InspectedEvent } from '@onceward/redis/operator'
import { type Database, ms, type Query } from './database.ts'
import { fromBase64Json } from './dead-letters.ts'
import { mayReadOutbox, messagesOf, type StoredMessage } from './outbox.ts'

/** A row of `processed_events`. */
export interface EventRow {
  readonly state: 'd' | 'r' | 'w' | 'x'
  readonly atMs: number
}

/** A row of `failed_events`. */
export interface Trouble {
  readonly attempt: number
  readonly noVerdict: number
  /** How often its handler has deferred it: `context.defer`. */
  readonly defers: number
  readonly countedAtMs: number | null
  readonly nextTryMs: number
  readonly firstFailedAtMs: number
  readonly lastFailedAtMs: number
  readonly parked: boolean
  readonly alone: boolean
  readonly published: boolean
  readonly discardedAtMs: number | null
  readonly reason: string | null
  readonly error: string | null
  readonly key: string
  readonly tenant: string | null
  readonly source: string | null
  readonly bodyBytes: number | null
}

/** A message with the same key that never became an event, such as one with another payload. */
export interface RefusedMessage {
  readonly id: string
  readonly times: number
  readonly firstFailedAtMs: number
  readonly lastFailedAtMs: number
  readonly reason: string
  readonly error: string | null
  readonly published: boolean
  readonly replay: boolean
}

/** Whether an event is done without a statement of its handler. */
export function isLate(state: string | undefined, trouble: Trouble | undefined): boolean {
  return state === 'd' && trouble?.reason === 'late-statement'
}

/** The message that was asked for by its id: it was refused, and never became an event. */
export function refusedOf({
  id,
  refused,
  row,
}: Omit<EventFacts, 'redis'>): RefusedMessage | undefined {
  return row === undefined ? refused.find((each) => each.id === id) : undefined
}

export interface AuditEntry {
  readonly atMs: number
  readonly who: string
  readonly action: string
  readonly target: string
  readonly why: string | null
}

/** A row of `leases`. */
export interface LeaseRow {
  readonly state: 'p' | 'w' | 'd' | 'x'
  readonly endsAtMs: number
  readonly attempt: number
  readonly reason: string | null
}

export interface Registration {
  readonly dedupWindowMs: number
  readonly seenAtMs: number
  readonly hasPlace: boolean
}

/** Everything the stores know of one event, at one moment. */
export interface EventFacts {
  readonly id: string
  readonly consumer: string
  readonly key: string
  readonly tenant: string | undefined
  /** By the clock of the database. */
  readonly nowMs: number
  /** Undefined if no guard of this consumer has ever started. */
  readonly registration: Registration | undefined
  readonly row: EventRow | undefined
  readonly trouble: Trouble | undefined
  /** Of the stored message, where senders write it. The guard may read another place. */
  readonly type?: string | undefined
  /** What the handler returned, as JSON text. */
  readonly result: string | undefined
  readonly refused: readonly RefusedMessage[]
  /** What its run has sent and the outbox still has. Without messages whose id the handler gave, and of batches. */
  readonly sent: readonly Omit<StoredMessage, 'body' | 'headers'>[]
  readonly audit: readonly AuditEntry[]
  /** `forbidden`: this login may not read the table of `postgresLeases`. */
  readonly lease: LeaseRow | 'forbidden' | undefined
  /** Undefined if Redis was not asked. */
  readonly redis: InspectedEvent | undefined
}

export interface EventName {
  readonly id: string
  readonly consumer: string
  readonly key: string
  readonly tenant: string | undefined
}

const MOST = 100

/** Reads all but Redis. */
export async function readFacts(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  event: EventName,
): Promise<Omit<EventFacts, 'redis'>> {
  const { id, consumer, key } = event
  const first = async <Row>(sql: string, values: readonly unknown[] = [id]) =>
    (await query<Row>(sql, values))[0]
  const now = await first<{ readonly nowMs: number }>(`select ${ms('now()')} as "nowMs"`, [])
  const refused = await query<RefusedMessage>(
    `select r.refused_id::text as id, r.times, ${ms('r.first_failed_at')} as "firstFailedAtMs",
       ${ms('r.last_failed_at')} as "lastFailedAtMs", r.reason, r.error, r.published, r.replay
     from ${quoted}.refused_messages r join ${quoted}.consumers c on c.id = r.consumer_id
     where c.name = $1 and (r.key = $2 or r.refused_id = $3::uuid) order by r.last_failed_at limit ${MOST}`,
    [consumer, escapeText(key), id],
  )
  const sentIds = Array.from({ length: MOST }, (_, index) => sentId([id], index + 1))
  const targets = [id, ...refused.map((each) => each.id), ...sentIds]
  return {
    ...event,
    nowMs: now?.nowMs ?? Date.now(),
    registration: await first<Registration>(
      `select dedup_window_ms as "dedupWindowMs", ${ms('seen_at')} as "seenAtMs", has_place as "hasPlace"
       from ${quoted}.consumers where name = $1`,
      [consumer],
    ),
    row: await first<EventRow>(
      `select state::text as state, ${ms('processed_at')} as "atMs" from ${quoted}.processed_events where event_id = $1::uuid`,
    ),
    trouble: await first<Trouble>(
      `select attempt, no_verdict as "noVerdict", defers, ${ms('counted_at')} as "countedAtMs", ${ms('next_try')} as "nextTryMs",
         ${ms('first_failed_at')} as "firstFailedAtMs", ${ms('last_failed_at')} as "lastFailedAtMs", parked, alone,
         published, ${ms('discarded_at')} as "discardedAtMs", reason, error, key, tenant, source, body_bytes as "bodyBytes"
       from ${quoted}.failed_events where event_id = $1::uuid`,
    ),
    type: await readType(query, quoted, id),
    result: (
      await first<{ readonly result: string }>(
        `select result::text as result from ${quoted}.event_results where event_id = $1::uuid`,
      )
    )?.result,
    refused,
    sent: await readSent(query, quoted, sentIds),
    audit: await query<AuditEntry>(
      `select ${ms('at')} as "atMs", who, action, target::text as target, why from ${quoted}.audit
       where target = any($1::uuid[]) order by id limit ${MOST}`,
      [targets],
    ),
    lease: await readLease(query, quoted, id),
  }
}

/** A type stands near the beginning of a body. */
const MOST_BYTES = 64 * 1024

async function readType(query: Query, quoted: string, id: string): Promise<string | undefined> {
  const [row] = await query<{ readonly source: string; headers: string; body: string }>(
    `select source, encode(headers, 'base64') as headers,
       encode(substring(body from 1 for ${MOST_BYTES}), 'base64') as body
     from ${quoted}.failed_events where event_id = $1::uuid and headers is not null and source is not null`,
    [id],
  )
  if (row === undefined) return undefined
  const body = Buffer.from(row.body, 'base64')
  return messageTypeOf({
    source: JSON.parse(row.source),
    headers: fromBase64Json(row.headers),
    body,
  })
}

async function readSent(
  query: Query,
  quoted: string,
  ids: readonly string[],
): Promise<EventFacts['sent']> {
  if (!(await mayReadOutbox(query, { quoted }))) return []
  const found = await messagesOf(query, { quoted }, { ids, maxBytes: 0 })
  return found.map(({ body: _, headers: __, ...message }) => message)
}

async function readLease(query: Query, quoted: string, id: string): Promise<EventFacts['lease']> {
  const [right] = await query<{ readonly may: boolean }>(
    `select has_table_privilege($1, 'select') as may`,
    [`${quoted}.leases`],
  )
  if (right?.may !== true) return 'forbidden'
  const [row] = await query<LeaseRow>(
    `select state::text as state, ${ms('ends_at')} as "endsAtMs", attempt, reason from ${quoted}.leases
     where event_id = $1::uuid and forget_at > clock_timestamp()`,
    [id],
  )
  return row
}
