import { createHmac } from 'node:crypto'
import { ConfigurationError, type Confirmation, type Destination } from '@onceward/core'
import { outgoingHeaders, refuseUnknownNames } from '@onceward/core/adapter'
import { standardKey } from './signatures.ts'

/** Options of {@link webhookDestination}. */
export interface WebhookDestinationOptions {
  /** `https:`, or `http:` in tests. */
  readonly url: string
  /** Base64 of at least 16 bytes, with or without `whsec_` before it. */
  readonly secret: string
  /** @defaultValue the `fetch` of Node */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** Answers that may be about the message, or about a server that has too much to do. */
const LATER = new Set([408, 425, 429])
/** Answers of an address that takes no message: other rights, another path, a server that has moved. */
const WRONG_PLACE = new Set([401, 403, 404, 405, 407, 410])
const REDIRECTS = 300
const CLIENT_FAULT = 400
const SERVER_FAULT = 500

/**
 * A webhook as a destination of the outbox's relay: a POST for each message, signed as Standard Webhooks demands. An
 * answer of 2xx confirms a message, and one of 4xx refuses it. 401, 403, 404, 405, 407, 410 and 3xx say that the address is
 * wrong: as 408, 425, 429 and 5xx they count against a message only if the webhook takes others.
 *
 * @throws {@link ConfigurationError} that never shows a secret.
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 *
 * @example
 * ```ts
 * import { webhookDestination } from '@onceward/http/webhooks'
 * import { startRelay } from '@onceward/postgres/outbox'
 *
 * const secret = process.env.WEBHOOK_SECRET ?? ''
 * const partner = webhookDestination({ url: 'https://example.com/hooks', secret })
 * const relay = await startRelay({ pool, destinations: { partner } })
 * await relay.stopped
 * ```
 */
export function webhookDestination(options: WebhookDestinationOptions): Destination {
  refuseUnknownNames('webhookDestination', options, { url: true, secret: true, fetch: true })
  const { fetch = globalThis.fetch, secret, url } = options
  const protocol = URL.canParse(url) ? new URL(url).protocol : undefined
  if (protocol !== 'https:' && protocol !== 'http:') {
    throw new ConfigurationError('Expected `url` of webhookDestination to be an https: address.')
  }
  const key = standardKey('webhookDestination', secret)
  return {
    batch: 1,
    publish: async (messages, signal) => {
      const answers: Confirmation[] = []
      for (const message of messages) {
        const unfit = unfitHeader(message.headers)
        if (unfit !== undefined) {
          answers.push({
            refused: new Error(`HTTP cannot carry the header "${unfit}" of the message`),
          })
          continue
        }
        const { id, payload } = message
        const timestamp = String(Math.floor(Date.now() / 1_000))
        const body = Buffer.from(payload)
        const signature = createHmac('sha256', key)
          .update(`${id}.${timestamp}.`)
          .update(body)
          .digest('base64')
        const headers = {
          ...outgoingHeaders(message, 'ce-'),
          ...{ 'webhook-id': id, 'webhook-timestamp': timestamp },
          'webhook-signature': `v1,${signature}`,
        }
        const request = { method: 'POST', headers, body, redirect: 'manual', signal } as const
        const response = await fetch(url, request)
        // Otherwise the connection stays in use.
        await response.body?.cancel()
        answers.push(confirmationOf(response.status))
      }
      return answers
    },
  }
}

/** Of the connection, which a message does not decide about. */
const OF_CONNECTION =
  /^(?:connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/i
/** What a header of HTTP may hold. */
const BYTES = /^[\x20-\x7e\x80-\xff]*$/

const unfitHeader = (headers: Readonly<Record<string, string>>): string | undefined =>
  Object.entries(headers).find(
    ([name, value]) => OF_CONNECTION.test(name) || !BYTES.test(value),
  )?.[0]

function confirmationOf(status: number): Confirmation {
  if (status >= 200 && status < 300) return undefined
  const error = new Error(`the webhook answered ${status}`)
  if (status >= SERVER_FAULT || LATER.has(status)) return { unknown: error }
  const isRedirect = status >= REDIRECTS && status < CLIENT_FAULT
  return isRedirect || WRONG_PLACE.has(status) ? { down: error } : { refused: error }
}
