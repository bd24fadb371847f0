import type { Seal } from '@onceward/core'
import { openMessage, Sealer, systemRuntime } from '@onceward/core/ports'
import { outboxStatus, readOutboxEnvelope } from '@onceward/postgres/operator'
import { type Database, ms, type Query } from './database.ts'
import { sealedNote } from './seal.ts'

/** The messages of the outbox to one destination. */
export interface OutboxStatus {
  readonly destination: string
  /** Messages that wait for a relay, and for messages of their key that were refused. */
  readonly waiting: number
  /** Messages whose time has not come. */
  readonly delayed: number
  /** Messages that the destination has refused, and that are published again. Each holds its key. */
  readonly refused: number
  readonly dead: number
  /** Whether a relay that runs has the destination. */
  readonly isServed: boolean
  /** Since when the oldest message that is neither dead nor delayed waits. */
  readonly oldestWaitingMs: number | null
}

export async function mayReadOutbox(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<boolean> {
  const [right] = await query<{ readonly mayRead: boolean }>(
    `select has_table_privilege($1, 'select') and has_table_privilege($2, 'select') as "mayRead"`,
    [`${quoted}.outbox_messages`, `${quoted}.outbox_leases`],
  )
  return right?.mayRead === true
}

/** Null if this login may not read them. */
export async function readOutbox(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
): Promise<readonly OutboxStatus[] | null> {
  if (!(await mayReadOutbox(query, { quoted }))) return null
  const found = await query<OutboxStatus & { readonly nowMs: number }>(outboxStatus(quoted))
  return found.map(({ nowMs: _, ...status }) => status)
}

/** A message that its destination has refused in every attempt. */
export interface DeadMessage {
  /** Of the row: the ids of messages need not differ. */
  readonly position: string
  readonly id: string
  readonly destination: string
  readonly key: string | null
  readonly attempts: number
  readonly createdAtMs: number
  readonly failedAtMs: number
  readonly bytes: number
  readonly error: string | null
}

/** A message of the outbox, as it leaves: its body may be cut. */
export interface StoredMessage {
  readonly position: string
  readonly id: string
  readonly destination: string
  readonly key: string | null
  readonly state: MessageState
  readonly attempts: number
  readonly createdAtMs: number
  readonly dueAtMs: number | null
  readonly failedAtMs: number | null
  readonly error: string | null
  readonly bytes: number
  readonly source: string
  readonly type: string
  /** Of the run that has sent it. Null: it was a run of several events, or none. */
  readonly event: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Payload and headers are sealed and were not opened: what to show in their place. */
  readonly sealed?: string | undefined
}

/** Queued, delayed, refused and tried again, held behind one that was refused, dead. */
export type MessageState = 'q' | 'd' | 'w' | 'h' | 'x'

interface MessageRow extends Omit<StoredMessage, 'source' | 'type' | 'event' | 'headers' | 'body'> {
  readonly envelope: string
  readonly body: string
}

/** Messages by their ids or by the positions of their rows. */
type Wanted = ({ readonly ids: readonly string[] } | { readonly positions: readonly string[] }) & {
  /** Most bytes of each body. */
  readonly maxBytes: number
  /** Opens what is sealed. Left out: it is not shown. */
  readonly seal?: Seal | undefined
}

const MOST_MESSAGES = 100

/**
 * These messages, oldest first: ids that handlers gave may be those of several. By ids it reads the whole table, because an
 * index on them would cost every message a write.
 */
export async function messagesOf(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  { maxBytes, seal, ...which }: Wanted,
): Promise<readonly StoredMessage[]> {
  const [column, values] =
    'ids' in which
      ? ['message_id = any ($1::text[])', which.ids]
      : ['position = any ($1::int8[])', which.positions]
  const rows = await query<MessageRow>(
    `select position::text as position, message_id as id, destination, encode(key, 'base64') as key, state::text as state,
       attempt as attempts, ${ms('created_at')} as "createdAtMs", ${ms('due_at')} as "dueAtMs", ${ms('failed_at')} as "failedAtMs",
       error, octet_length(payload) as bytes, encode(envelope, 'base64') as envelope,
       encode(substring(payload from 1 for $2::integer), 'base64') as body
     from ${quoted}.outbox_messages where ${column} order by position limit ${MOST_MESSAGES}`,
    // A sealed value can be opened as a whole only.
    [values, seal === undefined ? maxBytes : Math.max(maxBytes, MOST_SEALED_BYTES)],
  )
  return Promise.all(
    rows.map(async ({ body, envelope, key, ...row }) => {
      const read = readOutboxEnvelope(Buffer.from(envelope, 'base64'))
      const { event = null, headers, sealed, source, type } = read
      const text = key === null ? null : decoded(key)
      const payload = Buffer.from(body, 'base64')
      const message = { ...row, key: text, source, type, event }
      if (sealed !== true) return { ...message, headers, body: payload.subarray(0, maxBytes) }
      return { ...message, ...(await opened(message, { headers, payload }, { maxBytes, seal })) }
    }),
  )
}

/** More than a message has, and what sealing adds to it. */
const MOST_SEALED_BYTES = 8 * 1024 * 1024

/** What is sealed is shown to nobody: without its key there is a note in its place. */
async function opened(
  { bytes, source }: Pick<StoredMessage, 'bytes' | 'source'>,
  stored: Parameters<typeof openMessage>[1],
  { maxBytes, seal }: Pick<Wanted, 'maxBytes' | 'seal'>,
): Promise<Pick<StoredMessage, 'headers' | 'body' | 'sealed'> & Partial<StoredMessage>> {
  const hidden = (error?: unknown) => ({
    ...{ headers: {}, body: new Uint8Array(), sealed: sealedNote(bytes, error) },
  })
  if (seal === undefined) return hidden()
  try {
    const sealer = new Sealer(seal, { consumer: source, runtime: systemRuntime })
    const { headers, payload } = await openMessage(sealer, stored)
    return { headers, body: payload.subarray(0, maxBytes), bytes: payload.byteLength }
  } catch (error) {
    return hidden(error)
  }
}

const decoded = (base64: string): string => Buffer.from(base64, 'base64').toString()

/** Which dead messages. A field that is left out matches all. */
export interface DeadMessageFilter {
  readonly ids?: readonly string[] | undefined
  readonly destination?: string | undefined
  readonly limit?: number | undefined
}

/** Oldest first, without their payloads. */
export async function deadMessages(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  { destination, ids, limit }: DeadMessageFilter,
): Promise<readonly DeadMessage[]> {
  const rows = await query<DeadMessage>(
    `select position::text as position, message_id as id, destination, encode(key, 'base64') as key, attempt as attempts,
       ${ms('created_at')} as "createdAtMs", ${ms('failed_at')} as "failedAtMs", octet_length(payload) as bytes, error
     from ${quoted}.outbox_messages
     where state = 'x' and ($1::text[] is null or message_id = any ($1::text[])) and ($2::text is null or destination = $2)
     order by failed_at, position limit $3::bigint`,
    [ids ?? null, destination ?? null, limit ?? null],
  )
  return rows.map((row) => ({
    ...row,
    key: row.key === null ? null : decoded(row.key),
  }))
}

/** A key of which a message was refused and is tried again, with the messages that wait behind it. */
export interface WaitingKey {
  readonly destination: string
  /** Null: messages without a key, none of which waits for another one. */
  readonly key: string | null
  readonly messages: number
  readonly oldestMs: number
  readonly attempts: number
  readonly nextTryMs: number | null
  readonly error: string | null
}

/** Those that wait longest first. */
export async function waitingKeys(
  query: Query,
  { quoted }: Pick<Database, 'quoted'>,
  { destination, limit }: Pick<DeadMessageFilter, 'destination' | 'limit'>,
): Promise<readonly WaitingKey[]> {
  const rows = await query<WaitingKey>(
    `select destination, encode(key, 'base64') as key, count(*) as messages, ${ms('min(created_at)')} as "oldestMs",
       coalesce(max(attempt) filter (where state = 'w'), 0) as attempts,
       ${ms("min(due_at) filter (where state = 'w')")} as "nextTryMs", (array_agg(error) filter (where state = 'w'))[1] as error
     from ${quoted}.outbox_messages where state in ('w', 'h') and ($1::text is null or destination = $1)
     group by destination, 2 order by min(position) limit $2::bigint`,
    [destination ?? null, limit ?? null],
  )
  return rows.map((row) => ({ ...row, key: row.key === null ? null : decoded(row.key) }))
}
