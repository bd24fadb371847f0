import { cloudEventKey } from '@onceward/core'
import type { HttpRequest } from '../request/request.ts'

/**
 * The id of a CloudEvent over HTTP, made of its source and its id: of the binary mode (`ce-source`, `ce-id`) or of the
 * structured mode. The same event has the same key on every broker. Undefined for other requests.
 *
 * CloudEvents have no signature, so check the sender yourself, before.
 *
 * @throws {@link InvalidPayloadError} for an empty source or id. The request is answered 400.
 *
 * @example
 * ```ts
 * import { cloudEventId, type WebhookVerifier } from '@onceward/http/webhooks'
 *
 * const verify: WebhookVerifier = (request) =>
 *   request.headers.get('authorization') === `Bearer ${secret}`
 *     ? { kind: 'verified', eventId: cloudEventId(request) }
 *     : { kind: 'refused' }
 * ```
 */
export function cloudEventId({
  bytes: body,
  headers,
}: Pick<HttpRequest, 'headers' | 'bytes'>): string | undefined {
  const [source, id] = [headers.get('ce-source'), headers.get('ce-id')]
  const named = source === null || id === null ? {} : { 'ce-source': source, 'ce-id': id }
  const delivery = { body, headers: named, source: { broker: 'http', queue: '' } }
  return cloudEventKey()({ ...delivery, payload: undefined })
}
