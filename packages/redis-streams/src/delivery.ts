import type { Delivery } from '@onceward/core'
import { readEnvelope, registerEnvelopeReader, withEnvelope } from '@onceward/core/adapter'
import { isDeadLetterHeader } from '@onceward/core/ports'
import type { ClaimedEntry, Field, StreamEntry } from './client.ts'
import { DEFAULTS, type Settings } from './options.ts'

/** An entry in hand. */
export interface Received {
  readonly entry: StreamEntry
  readonly delivery: Delivery
  /** How often it was held already, to wait. */
  readonly rounds: number
}

/** An entry as XREADGROUP gives it: to ioredis and iovalkey as a list, to node-redis as an object. */
export type RawEntry =
  | readonly [id: string | Uint8Array, fields: readonly (string | Uint8Array)[] | null]
  | { readonly id: string; readonly message: Readonly<Record<string, string | Uint8Array>> | null }

/**
 * What XREADGROUP answers: streams with their entries, or null if there is nothing to read. The answers of ioredis and
 * iovalkey, of `xreadgroupBuffer` too, and of node-redis fit.
 */
export type StreamReply =
  | readonly (
      | readonly [stream: string | Uint8Array, entries: readonly RawEntry[]]
      | { readonly name: string | Uint8Array; readonly messages: readonly RawEntry[] }
    )[]
  | Readonly<Record<string, readonly RawEntry[]>>
  | null

export type FieldSettings = Pick<Settings, 'bodyField' | 'orderingField'>

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function toText(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes)
  } catch {
    return undefined
  }
}

interface NamedField {
  readonly name: string
  readonly value: Uint8Array
}

/** Makes a delivery of an entry. Fields that are not valid UTF-8 are no headers; they are in `raw`. */
export function toDelivery(
  entry: StreamEntry & Partial<Pick<ClaimedEntry, 'deliveryCount'>>,
  settings: FieldSettings,
): Delivery {
  const { stream, id, fields, deliveryCount } = entry
  const named = fields.map(([name, value]): NamedField => ({ name: toName(name), value }))
  const bodyAt = bodyIndex(named, settings.bodyField)
  const headers = headersOf(named.filter((_, index) => index !== bodyAt))
  const raw: StreamEntry = { stream, id, fields }
  return withEnvelope(
    {
      body: named[bodyAt]?.value ?? jsonOf(named),
      headers,
      source: { broker: 'redis-streams', queue: stream, position: id },
      contentType: headers['content-type'],
      contentEncoding: headers['content-encoding'],
      messageId: id,
      orderingKey: orderingKeyOf(named, settings.orderingField),
      producedAt: dateOf(id),
      deliveryCount,
      // Unknown counts as a redelivery: a needless check costs a statement; an uncounted poison message can kill the process.
      redelivered: deliveryCount !== 1,
      raw,
    },
    () => withoutBody(raw, bodyAt),
  )
}

/**
 * Makes a delivery of an entry that your own loop read and settles:
 * `await guard.process(fromStreamEntry(entry, 'orders'))`. `wrapStream` and `consumeStream` settle by themselves.
 *
 * XREADGROUP does not say whether an entry was delivered before, so the delivery counts as redelivered: an entry that
 * kills the process is then counted before it runs, for one more statement.
 */
export function fromStreamEntry(
  entry: RawEntry,
  stream: string,
  options: { readonly bodyField?: string; readonly orderingField?: string } = {},
): Delivery {
  const { bodyField = DEFAULTS.bodyField, orderingField } = options
  return toDelivery(toEntry(entry, stream), { bodyField, orderingField })
}

/** The entries of an answer of XREADGROUP, without those that were deleted while they were pending. */
export function entriesOf(reply: unknown): readonly StreamEntry[] {
  return streamsIn(reply).flatMap(([stream, entries]) => {
    const all = entries.map((entry) => toEntry(entry, Buffer.from(stream).toString()))
    return all.filter(({ fields }) => fields.length > 0)
  })
}

type NamedEntries = readonly [stream: string | Uint8Array, entries: readonly RawEntry[]]

/** A list of pairs, of objects, or flat, as RESP 3 has it; or a map by name. */
function streamsIn(reply: unknown): readonly NamedEntries[] {
  if (typeof reply !== 'object' || reply === null) return []
  if (!Array.isArray(reply)) return Object.entries(reply) as NamedEntries[]
  const isFlat = typeof reply[0] === 'string' || reply[0] instanceof Uint8Array
  if (isFlat)
    return Array.from({ length: reply.length / 2 }, (_, at) => reply.slice(2 * at)) as never
  return reply.map((each) => (Array.isArray(each) ? each : [each.name, each.messages])) as never
}

const isList = (entry: RawEntry): entry is Extract<RawEntry, readonly unknown[]> =>
  Array.isArray(entry)

function toEntry(entry: RawEntry, stream: string): StreamEntry {
  const [id, flat] = isList(entry) ? entry : [entry.id, Object.entries(entry.message ?? {}).flat()]
  const bytes = (flat ?? []).map((each) => (typeof each === 'string' ? Buffer.from(each) : each))
  const fields = Array.from({ length: bytes.length / 2 }, (_, at): Field => {
    return [bytes[2 * at] as Uint8Array, bytes[2 * at + 1] as Uint8Array]
  })
  return { stream, id: Buffer.from(id).toString(), fields }
}

/** Registers entries that were read or claimed, without those that are in hand already. */
export type Accept = (
  entries: readonly (StreamEntry & Partial<Pick<ClaimedEntry, 'deliveryCount'>>)[],
) => readonly Received[]

export const createAccept =
  (
    settings: FieldSettings,
    owned: {
      has(entry: StreamEntry): boolean
      hold(received: Received): void
    },
  ): Accept =>
  (entries) =>
    entries.flatMap((each) => {
      // This consumer claimed its own entry, because a renewal was late.
      if (owned.has(each)) return []
      const delivery = toDelivery(each, settings)
      const received: Received = { entry: delivery.raw as StreamEntry, delivery, rounds: 0 }
      owned.hold(received)
      return [received]
    })

/**
 * The entry that a delivery was made of, also of a stored one. Undefined for another broker's deliveries, and for a
 * stored one whose envelope cannot be read.
 */
export const streamMessage: (delivery: Delivery) => StreamEntry | undefined =
  registerEnvelopeReader('redis-streams', readEntry)

interface StoredEntry {
  readonly bodyAt: number
  readonly entry: StreamEntry
}

/** The body is stored beside the envelope. If it was made of all fields, all of them are in the envelope. */
function withoutBody(entry: StreamEntry, bodyAt: number): StoredEntry {
  const fields = entry.fields.map(
    ([name, value], index): Field => [name, index === bodyAt ? new Uint8Array() : value],
  )
  return { bodyAt, entry: { ...entry, fields } }
}

function readEntry({ body, envelope = new Uint8Array() }: Delivery): StreamEntry {
  const { bodyAt, entry } = readEnvelope(envelope) as StoredEntry
  const fields = entry.fields.map(
    ([name, value], index): Field => [name, index === bodyAt ? Buffer.from(body) : value],
  )
  return { ...entry, fields }
}

/** The fields of a message that another body took the place of: an item of a delivery that was split. */
export function fieldsWithBody(
  { fields }: Pick<StreamEntry, 'fields'>,
  body: Uint8Array,
  { bodyField }: Pick<FieldSettings, 'bodyField'>,
): readonly Field[] {
  const named = fields.map(([name, value]) => ({ name: toName(name), value }))
  const at = bodyIndex(named, bodyField)
  if (at === -1) return [[Buffer.from(bodyField), body]]
  return fields.map(([name, value], index): Field => [name, index === at ? body : value])
}

/** Two names that are not valid UTF-8 must not become the same. */
const toName = (name: Uint8Array): string =>
  toText(name) ?? `base64:${Buffer.from(name).toString('base64')}`

/** The last of a repeated body field, as of headers. A dead letter that is read again has the reasons besides. */
function bodyIndex(named: readonly NamedField[], bodyField: string): number {
  const at = named.findLastIndex(({ name }) => name === bodyField)
  if (at !== -1) return at
  const own = named.filter(({ name }) => !isDeadLetterHeader(name))
  return own.length === 1 ? named.indexOf(own[0] as NamedField) : -1
}

function jsonOf(named: readonly NamedField[]): Uint8Array {
  const own = named.filter(({ name }) => !isDeadLetterHeader(name))
  const texts = own.map(({ name, value }) => [name, Buffer.from(value).toString()] as const)
  // Not by assignment, because a field may be called __proto__.
  return Buffer.from(JSON.stringify(Object.fromEntries(texts)))
}

function headersOf(named: readonly NamedField[]): Delivery['headers'] {
  const entries = named.flatMap(({ name, value }): [string, string][] => {
    const text = toText(value)
    return text === undefined ? [] : [[name.toLowerCase(), text]]
  })
  return Object.fromEntries(entries)
}

/** The guard takes empty text for no lane. */
function orderingKeyOf(
  named: readonly NamedField[],
  field: string | undefined,
): string | undefined {
  const found =
    field === undefined ? undefined : named.findLast(({ name }) => name === field)?.value
  return found === undefined ? undefined : toName(found) || 'base64:'
}

/** Of an id that the server made. A producer may give others. */
function dateOf(id: string): Date | undefined {
  const ms = Number(id.split('-')[0])
  return ms > 0 && ms <= 8_640_000_000_000_000 ? new Date(ms) : undefined
}
