import { RetryableError } from '@onceward/core'
import { readEnvelope, registerEnvelopeReader } from '@onceward/core/adapter'
import type { Exchange } from './exchange.ts'
import { type HttpRequest, targetOf } from './request.ts'

/** The broker of deliveries that are made of requests. */
export const BROKER = 'http'

/** Headers of a request that are stored with it. They name an event and its content, and are not credentials. */
export const REQUEST_HEADERS: readonly string[] = Object.freeze([
  ...['content-type', 'content-language', 'content-encoding', 'user-agent', 'date'],
  ...['webhook-id', 'webhook-timestamp'],
  ...['x-github-event', 'x-github-delivery', 'x-github-hook-id'],
  ...['x-github-hook-installation-target-id', 'x-github-hook-installation-target-type'],
])

/** Headers that are credentials. They are never stored. */
export const CREDENTIALS: readonly string[] = ['authorization', 'proxy-authorization', 'cookie']

/** The part of a request that is stored: `original` and every other header are left out. */
export function storable(request: HttpRequest, storedNames: readonly string[]): HttpRequest {
  const { bytes, headers, method, url } = request
  const kept = new Headers()
  for (const name of storedNames) {
    const value = headers.get(name)
    if (value !== null) kept.set(name, value)
  }
  return { method, url, headers: kept, bytes, original: undefined }
}

/** The stored form of an exchange, without its body. */
export function toStoredForm(
  { key, request, tenant }: Exchange,
  storedNames: readonly string[],
): object {
  const { headers, method, url } = storable(request, storedNames)
  return { key, tenant, method, url, headers: [...headers] }
}

interface Stored {
  readonly key: string
  readonly tenant: string | undefined
  readonly method: string
  readonly url: string
  readonly headers: [string, string][]
}

registerEnvelopeReader(BROKER, ({ body: bytes, envelope = new Uint8Array() }): Exchange => {
  const { headers, key, method, tenant, url } = readEnvelope(envelope) as Stored
  const stored = new Headers(headers)
  const request = { method, url, headers: stored, bytes, original: undefined }
  const contentType = stored.get('content-type') ?? undefined
  return { key, tenant, request, target: targetOf(url), contentType }
})

/**
 * The request of a delivery. One that comes from the inbox was read from its envelope.
 *
 * @throws {@link RetryableError} if the stored request could not be read, so that a newer process may run it.
 */
export function exchangeOf({ raw }: { readonly raw?: unknown }): Exchange {
  if (raw !== undefined) return raw as Exchange
  throw new RetryableError(
    'The stored request of this event cannot be read. Update onceward in all processes of the consumer.',
  )
}
