import type { Delivery } from '../model/delivery.ts'
import { randomUUID } from '../node.ts'

/**
 * A delivery of `payload` as JSON, for unit tests. Every call makes another event, unless `messageId` or the
 * `idempotency-key` header is given. To deliver the same event twice, process the same delivery twice.
 *
 * @param overrides - Each replaces the whole field: `{ headers: {} }` makes a delivery without a key.
 */
export function toDelivery(payload: unknown, overrides: Partial<Delivery> = {}): Delivery {
  const messageId = overrides.messageId ?? randomUUID()
  const text = JSON.stringify(payload) as string | undefined
  return {
    body: new TextEncoder().encode(text ?? ''),
    source: { broker: 'memory', queue: 'memory' },
    contentType: 'application/json',
    messageId,
    ...overrides,
    headers: lowerCased(overrides.headers ?? { 'idempotency-key': messageId }),
  }
}

/** Like every adapter, uses lower-case header names. */
const lowerCased = (headers: Delivery['headers']): Delivery['headers'] =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
