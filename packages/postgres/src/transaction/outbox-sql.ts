import { createHash } from 'node:crypto'
import type { CollectedMessage } from '@onceward/core/ports'
import { literal } from '../driver/sql-literal.ts'
import { writeOutboxEnvelope } from '../statements/outbox-envelope.ts'

/** A relay owns whole buckets. */
export const BUCKETS = 64
/** The locks of writers. Their number bounds what all writers together take of the server's lock table. */
const SLOTS = 1_024

/** The same in every process and every version: writers and relays agree on it. */
function hash32(...parts: readonly string[]): number {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:${part}`)
  return hash.digest().readInt32BE(0)
}

/** What a key's writers lock. Messages without a key have no order, so they lock nothing. */
export function slotOf({ key, to }: Pick<CollectedMessage, 'key' | 'to'>): number | undefined {
  return key === undefined ? undefined : hash32(to, key) & (SLOTS - 1)
}

export function bucketOf(message: CollectedMessage): number {
  const slot = slotOf(message) ?? hash32(message.id)
  return slot & (BUCKETS - 1)
}

/** The slots of the messages, sorted: writers that took them in different orders would deadlock. */
export function slotsOf(messages: readonly CollectedMessage[]): readonly number[] {
  const slots = new Set<number>()
  for (const message of messages) {
    const slot = slotOf(message)
    if (slot !== undefined) slots.add(slot)
  }
  return [...slots].toSorted((a, b) => a - b)
}

/** The class of the advisory locks of one schema. Slots are its objects; relays use −1. */
export const lockGroup = (schema: string): number => hash32('onceward.outbox', schema)

/**
 * Locks the slots until the end of the transaction: of two writers of one key, the one that draws the later positions
 * commits later. Undefined: there is nothing to lock.
 *
 * @param schema - Quoted for SQL. Two schemas have locks of their own.
 */
export function lockText(
  schema: string,
  messages: readonly CollectedMessage[],
): string | undefined {
  const slots = slotsOf(messages)
  if (slots.length === 0) return undefined
  // The function is called row by row, in the order of the array. Prisma cannot read a `void`.
  return `select pg_catalog.pg_advisory_xact_lock(${lockGroup(schema)}, slot)::pg_catalog.text from pg_catalog.unnest('{${slots.join()}}'::pg_catalog.int4[]) slot`
}

const COLUMNS = 'bucket, state, message_id, destination, key, envelope, payload, due_at'

/**
 * The rows of one insert, whose positions are drawn in the order of the rows.
 *
 * @param condition - For all rows, as SQL.
 */
export function insertText(
  schema: string,
  messages: readonly CollectedMessage[],
  condition?: string,
): string {
  const rows = messages.map(rowText).join()
  const source =
    condition === undefined
      ? `values ${rows}`
      : `select sent.* from (values ${rows}) sent(${COLUMNS}) where ${condition}`
  return `insert into ${schema}.outbox_messages (${COLUMNS}) ${source}`
}

function rowText(message: CollectedMessage): string {
  const { delayMs, id, key, payload, to } = message
  const envelope = writeOutboxEnvelope(message)
  const [state, dueAt] =
    delayMs === 0
      ? ['q', 'null::pg_catalog.timestamptz']
      : ['d', `pg_catalog.now() + pg_catalog.make_interval(secs => ${delayMs / 1_000})`]
  const keyText = key === undefined ? 'null::pg_catalog.bytea' : bytes(Buffer.from(key))
  return `(${bucketOf(message)},'${state}'::pg_catalog."char",${textOf(id)},${textOf(to)},${keyText},${bytes(envelope)},${bytes(payload)},${dueAt})`
}

/** Right with any `standard_conforming_strings`. */
const bytes = (value: Uint8Array): string =>
  `pg_catalog.decode('${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}','hex')`

/** Knex and others read a question mark as a parameter, also within a literal. */
const textOf = (text: string): string =>
  text.includes('?') ? `pg_catalog.convert_from(${bytes(Buffer.from(text))},'UTF8')` : literal(text)

/** What is stored of messages, in the transaction of their event. */
export function flushTexts(
  schema: string,
  messages: readonly CollectedMessage[],
): readonly string[] {
  if (messages.length === 0) return []
  const locks = lockText(schema, messages)
  const insert = insertText(schema, messages)
  return locks === undefined ? [insert] : [locks, insert]
}
