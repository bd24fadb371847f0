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
  const [source, id] = ['ce-source', 'ce-id'].map((name) => decoded(headers.get(name)))
  const named = source === undefined || id === undefined ? {} : { 'ce-source': source, 'ce-id': id }
  const delivery = { body, headers: named, source: { broker: 'http', queue: '' } }
  return cloudEventKey()({ ...delivery, payload: undefined })
}

/** The HTTP binding writes what a header cannot hold as `%XX`. */
function decoded(value: string | null): string | undefined {
  if (value === null) return undefined
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
