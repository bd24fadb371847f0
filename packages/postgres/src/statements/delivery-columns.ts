import type { Delivery } from '@onceward/core'

/** The largest delivery whose body and headers are stored: more than brokers allow by default. */
export const MAX_STORED_BYTES: number = 16 * 1024 * 1024

/** Stands in place of the body of a delivery that was too large to store. */
export const BODY_OMITTED_HEADER = 'onceward-body-omitted'

/** A delivery as parameters of a statement. Columns of type bytea are base64. */
export interface StoredDelivery {
  readonly source: string
  readonly envelope: string
  readonly headers: string
  readonly body: string
  readonly bodyBytes: number
}

interface Envelope {
  readonly contentType?: string | undefined
  readonly messageId?: string | undefined
  readonly orderingKey?: string | undefined
  readonly producedAtMs?: number | undefined
}

/**
 * The fields of a delivery that are the same in every redelivery, without delivery counts and the client's object.
 * JSON in bytea, because a header may hold what neither text nor jsonb takes.
 */
export function storeDelivery(delivery: Delivery): StoredDelivery {
  const { body, contentType, messageId, orderingKey, producedAt } = delivery
  const headers = Buffer.from(JSON.stringify(delivery.headers))
  const isStored = body.byteLength + headers.byteLength <= MAX_STORED_BYTES
  const producedAtMs = producedAt?.getTime()
  const envelope: Envelope = { contentType, messageId, orderingKey, producedAtMs }
  return {
    source: JSON.stringify(delivery.source),
    envelope: Buffer.from(JSON.stringify(envelope)).toString('base64'),
    headers: (isStored ? headers : Buffer.from('{}')).toString('base64'),
    body: isStored ? Buffer.from(body).toString('base64') : '',
    bodyBytes: body.byteLength,
  }
}

export function readDelivery(stored: StoredDelivery): Delivery {
  const envelope = fromJson(stored.envelope) as Envelope
  const headers = fromJson(stored.headers) as Delivery['headers']
  const body = new Uint8Array(Buffer.from(stored.body, 'base64'))
  const { contentType, messageId, orderingKey, producedAtMs } = envelope
  return {
    body,
    headers: isOmitted(stored)
      ? { ...headers, [BODY_OMITTED_HEADER]: `${stored.bodyBytes}` }
      : headers,
    source: JSON.parse(stored.source) as Delivery['source'],
    ...(contentType === undefined ? {} : { contentType }),
    ...(messageId === undefined ? {} : { messageId }),
    ...(orderingKey === undefined ? {} : { orderingKey }),
    ...(typeof producedAtMs === 'number' ? { producedAt: new Date(producedAtMs) } : {}),
  }
}

/** Whether the body was too large to be stored; such a dead letter cannot be replayed from Postgres. */
export function isOmitted(stored: Pick<StoredDelivery, 'body' | 'bodyBytes'>): boolean {
  return stored.body === '' && stored.bodyBytes > 0
}

function fromJson(base64: string): unknown {
  return JSON.parse(Buffer.from(base64, 'base64').toString())
}
