import type { OutgoingMessage } from '../model/destination.ts'

/** The W3C name is the only one that is as it is on every broker. */
const CONTENT_TYPE = 'content-type'

/** That a handler has given its message. */
export const givenContentType = (headers: Readonly<Record<string, string>>): string | undefined =>
  Object.entries(headers).find(([name]) => name.toLowerCase() === CONTENT_TYPE)?.[1]

/**
 * The headers of a message of the outbox: those of its handler, the attributes of CloudEvents in binary mode, and the
 * idempotency key. The default keys of a guard find them.
 *
 * @param prefix - Of the attributes, as the broker's binding of CloudEvents writes it.
 */
export function outgoingHeaders(
  { contentType, headers, id, source, type }: OutgoingMessage,
  prefix: 'ce_' | 'ce-' | 'cloudEvents:',
): Record<string, string> {
  return {
    ...(givenContentType(headers) !== undefined ? {} : { [CONTENT_TYPE]: contentType }),
    ...headers,
    [`${prefix}specversion`]: '1.0',
    [`${prefix}id`]: id,
    [`${prefix}source`]: source,
    [`${prefix}type`]: type,
    'idempotency-key': id,
  }
}
