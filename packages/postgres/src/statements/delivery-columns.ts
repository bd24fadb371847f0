import type { Delivery } from '@onceward/core'

/** Bytes of one piece of a large body. A body of at most one piece is stored in its row. */
export const PART_BYTES: number = 2 * 1024 * 1024

/** Stands in place of the body of a delivery that was too large to store. */
export const BODY_OMITTED_HEADER = 'onceward-body-omitted'

/** A delivery as parameters of a statement. Columns of type bytea are base64. */
export interface StoredDelivery {
  readonly source: string
  readonly properties: string
  readonly envelope: string | null
  readonly headers: string
  readonly body: string
  readonly bodyBytes: number
  /** The body is stored in so many pieces; 0: in its row, or not at all. */
  readonly bodyParts: number
}

/**
 * Stands before the JSON of the properties of a sealed delivery. Versions that know nothing of it cannot read such a row: they
 * leave it as it is, and send nothing on that is sealed.
 */
const SEALED_PREFIX = 'sealed:'

export interface Properties {
  readonly contentType?: string | undefined
  readonly contentEncoding?: string | undefined
  readonly messageId?: string | undefined
  readonly orderingKey?: string | undefined
  readonly producedAtMs?: number | undefined
  readonly item?: Delivery['item']
}

/** Whether a delivery is stored whole: its body, envelope and headers together are within the bound. */
export function isStorable(delivery: Delivery, maxStoredBytes: number): boolean {
  return sizeOf(delivery) <= maxStoredBytes
}

/** Whether a delivery is so small that every inbox stores it whole. */
export function isSmall(delivery: Delivery): boolean {
  return isStorable(delivery, PART_BYTES)
}

function sizeOf({ body, envelope, headers }: Delivery): number {
  return body.byteLength + (envelope?.byteLength ?? 0) + Buffer.byteLength(textsJson(headers))
}

/**
 * The fields of a delivery that are the same in every redelivery, without delivery counts and the client's object.
 * JSON in bytea, because a header may hold what neither text nor jsonb takes.
 */
export function storeDelivery(delivery: Delivery, maxStoredBytes: number): StoredDelivery {
  const { body, contentType, contentEncoding, envelope, headers } = delivery
  const { item, messageId, orderingKey, producedAt } = delivery
  const isStored = isStorable(delivery, maxStoredBytes)
  const bodyParts =
    isStored && body.byteLength > PART_BYTES ? Math.ceil(body.byteLength / PART_BYTES) : 0
  const producedAtMs = producedAt?.getTime()
  // What is left out of the row is not sealed in it.
  const prefix = isStored && delivery.sealed === true ? SEALED_PREFIX : ''
  const texts = { contentType, contentEncoding, messageId, orderingKey }
  const properties: Properties = { ...texts, producedAtMs, item }
  return {
    source: textsJson(delivery.source),
    properties: toBase64(prefix + JSON.stringify(properties)),
    envelope: isStored && envelope !== undefined ? toBase64(envelope) : null,
    headers: toBase64(isStored ? textsJson(headers) : '{}'),
    body: isStored && bodyParts === 0 ? toBase64(body) : '',
    bodyBytes: body.byteLength,
    bodyParts,
  }
}

/** If a custom consumer adds a value that JSON refuses, such as a BigInt, the texts are kept. */
function textsJson(fields: Delivery['headers'] | Delivery['source']): string {
  try {
    return JSON.stringify(fields)
  } catch {
    const texts = Object.entries(fields).filter(([, value]) => typeof value === 'string')
    return JSON.stringify(Object.fromEntries(texts))
  }
}

/** One piece of a body, as a parameter. */
export function bodyPart(body: Uint8Array, part: number): string {
  return toBase64(body.subarray(part * PART_BYTES, (part + 1) * PART_BYTES))
}

/** @param body - Of a delivery whose body is in parts. */
export function readDelivery(stored: StoredDelivery, body?: Uint8Array): Delivery {
  const isSealed = isSealedDelivery(stored.properties)
  const properties: Properties = readProperties(stored.properties)
  const headers = JSON.parse(textOf(stored.headers)) as Delivery['headers']
  const { contentType, contentEncoding, item, messageId, orderingKey, producedAtMs } = properties
  return {
    body: body ?? new Uint8Array(Buffer.from(stored.body, 'base64')),
    headers: isOmitted(stored)
      ? { ...headers, [BODY_OMITTED_HEADER]: `${stored.bodyBytes}` }
      : headers,
    source: JSON.parse(stored.source) as Delivery['source'],
    ...(contentType === undefined ? {} : { contentType }),
    ...(contentEncoding === undefined ? {} : { contentEncoding }),
    ...(messageId === undefined ? {} : { messageId }),
    ...(orderingKey === undefined ? {} : { orderingKey }),
    ...(item === undefined ? {} : { item }),
    ...(isSealed ? { sealed: true } : {}),
    ...(typeof producedAtMs === 'number' ? { producedAt: new Date(producedAtMs) } : {}),
    ...(stored.envelope === null
      ? {}
      : { envelope: new Uint8Array(Buffer.from(stored.envelope, 'base64')) }),
  }
}

/** @param properties - Of a stored delivery, as base64. */
export const isSealedDelivery = (properties: string): boolean =>
  textOf(properties).startsWith(SEALED_PREFIX)

/** @param properties - As base64. */
export function readProperties(properties: string): Readonly<Record<string, unknown>> & Properties {
  const text = textOf(properties)
  return JSON.parse(text.startsWith(SEALED_PREFIX) ? text.slice(SEALED_PREFIX.length) : text)
}

/** Whether the delivery was too large to be stored; such a dead letter cannot be replayed from Postgres. */
export function isOmitted({
  body,
  bodyBytes,
  bodyParts,
}: Pick<StoredDelivery, 'body' | 'bodyBytes' | 'bodyParts'>): boolean {
  return body === '' && bodyBytes > 0 && bodyParts === 0
}

/** {@link isOmitted} in SQL. */
export const isOmittedBody = (row: string): string =>
  `coalesce(octet_length(${row}.body) = 0 and ${row}.body_bytes > 0 and ${row}.body_parts = 0, false)`

/** Without a copy of the bytes. */
function toBase64(content: Uint8Array | string): string {
  return typeof content === 'string'
    ? Buffer.from(content).toString('base64')
    : Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString('base64')
}

const textOf = (base64: string): string => Buffer.from(base64, 'base64').toString()
