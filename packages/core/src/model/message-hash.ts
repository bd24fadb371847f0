import { createHash } from 'node:crypto'
import type { Delivery } from './delivery.ts'

/** Headers in which brokers count deliveries. A redelivery of the same message has other values. */
const VOLATILE_HEADERS = /^x-(death|first-death-|last-death-|delivery-count|acquired-count)/

/**
 * Identifies one message, however often it is delivered and for whatever reason it is refused. 64 hex digits.
 *
 * @param consumer - Name or number of the consumer.
 */
export function messageHash(
  consumer: string | number,
  { source, messageId, headers, body }: Delivery,
): string {
  const place = [source.broker, source.queue, source.position, messageId]
  const stable = Object.entries(headers)
    .filter(([name]) => !VOLATILE_HEADERS.test(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(textOf([consumer, ...place], stable))
    .update(body)
    .digest('hex')
}

/** Headers are texts. A consumer of the user's own may pass others, also such as JSON refuses, like a BigInt. */
function textOf(
  place: readonly unknown[],
  headers: readonly (readonly [string, unknown])[],
): string {
  try {
    return JSON.stringify([...place, headers])
  } catch {
    const texts = headers.filter(([, value]) => typeof value === 'string')
    return JSON.stringify([...place.map(String), texts])
  }
}
