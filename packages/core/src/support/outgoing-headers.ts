import type { OutgoingMessage } from '../model/destination.ts'

/** The W3C name is the only one that is as it is on every broker. */
const CONTENT_TYPE = 'content-type'

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
  const hasContentType = Object.keys(headers).some((name) => name.toLowerCase() === CONTENT_TYPE)
  return {
    ...(hasContentType ? {} : { [CONTENT_TYPE]: contentType }),
    ...headers,
    [`${prefix}specversion`]: '1.0',
    [`${prefix}id`]: id,
    [`${prefix}source`]: source,
    [`${prefix}type`]: type,
    'idempotency-key': id,
  }
}
