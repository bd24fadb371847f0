import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import { ConfigurationError } from '@onceward/core'
import { rangeProblems, refuseProblems, refuseUnknownNames } from '@onceward/core/adapter'
import type { HttpRequest } from '../request/request.ts'

/** What a verifier says of a delivery. */
export type WebhookVerdict =
  /** The provider sent it. Without an event id it is answered 400. */
  | {
      readonly kind: 'verified'
      readonly eventId: string | undefined
      /** The content type of the body, for providers whose header says another one. Default: that of the header. */
      readonly contentType?: string | undefined
    }
  /** The verifier has dealt with it, as with a handshake: it is answered 200, and nothing runs. The note is logged. */
  | { readonly kind: 'handled'; readonly note: string; readonly fields?: object | undefined }
  /** It is answered 401. */
  | { readonly kind: 'refused' }

/**
 * Checks who sent a delivery, over its raw bytes, and finds the provider's id of the event.
 *
 * @param nowMs - Milliseconds since 1970, on the clock of the guard.
 */
export interface WebhookVerifier {
  (
    request: Pick<HttpRequest, 'headers' | 'bytes'>,
    nowMs: number,
  ): WebhookVerdict | Promise<WebhookVerdict>
  /** Logged as a warning when a guard is made with it. */
  readonly advice?: string | undefined
}

/** One secret, or several while they are rotated: a delivery that is signed with any of them is verified. */
export type Secrets = string | readonly string[]

/** Options of the schemes whose signatures have a timestamp. */
export interface SignatureOptions {
  /**
   * How far the timestamp of a signature may be from the clock of the guard, in both directions, milliseconds,
   * 1 000–86 400 000. @defaultValue 300 000 (5 minutes)
   */
  readonly toleranceMs?: number | undefined
}

/** Defaults of the signatures, in milliseconds. */
export const SIGNATURE_DEFAULTS: Readonly<Record<'toleranceMs', number>> = Object.freeze({
  toleranceMs: 300_000,
})

const REFUSED: WebhookVerdict = { kind: 'refused' }

/** Stripe sends it with every test event. */
const TEST_ID = /^evt_0+$/

/**
 * Stripe's `Stripe-Signature`, with a timestamp. The event id is the `id` of the body. All test events of the dashboard
 * have one id (`evt_00000000000000`), so that of each is made of what was signed.
 *
 * @param secrets - The signing secret of the endpoint (`whsec_…`), not an API key.
 * @throws {@link ConfigurationError} that never shows a secret.
 * @see https://docs.stripe.com/webhooks#verify-manually
 */
export function stripeSignature(secrets: Secrets, options: SignatureOptions = {}): WebhookVerifier {
  const keys = keysOf('stripeSignature', secrets, (secret) => {
    if (/^(sk|rk|pk)_/.test(secret)) throw new ConfigurationError(API_KEY)
    return Buffer.from(secret, 'utf8')
  })
  const toleranceMs = toleranceOf('stripeSignature', options)
  return ({ bytes, headers }, nowMs) => {
    const pairs = (headers.get('stripe-signature') ?? '').split(',').map((pair) => pair.split('='))
    const valuesOf = (name: string): readonly string[] =>
      pairs.flatMap(([key, value]) => (key === name && value !== undefined ? [value] : []))
    const timestamp = valuesOf('t').at(-1)
    if (!isRecent(timestamp, nowMs, toleranceMs)) return REFUSED
    const given = { encoding: 'hex', texts: valuesOf('v1') } as const
    const signed = [`${timestamp}.`, bytes]
    if (!isSigned(keys, signed, given)) return REFUSED
    const id = idOfBody(bytes)
    const isTest = id !== undefined && TEST_ID.test(id)
    return {
      kind: 'verified',
      eventId: isTest
        ? `${id}:${hash('sha256', Buffer.concat(signed.map((part) => Buffer.from(part))), 'hex')}`
        : id,
    }
  }
}

/**
 * GitHub's `X-Hub-Signature-256`. The event id is `X-GitHub-Delivery`: a redelivery keeps it, and all hooks that get the
 * event share it.
 *
 * The scheme has no timestamp and does not sign the id: anyone who has read a delivery can send it again under another id.
 * TLS alone keeps deliveries from being read.
 *
 * GitHub does not deliver a failed delivery again. With `run: 'later'` the guard retries the handler.
 *
 * @throws {@link ConfigurationError} that never shows a secret.
 * @see https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 */
export function githubSignature(secrets: Secrets): WebhookVerifier {
  const keys = keysOf('githubSignature', secrets, (secret) => Buffer.from(secret, 'utf8'))
  return ({ bytes, headers }) => {
    const hex = /^sha256=(.*)$/.exec(headers.get('x-hub-signature-256') ?? '')?.[1]
    const given = { encoding: 'hex', texts: hex === undefined ? [] : [hex] } as const
    if (!isSigned(keys, [bytes], given)) return REFUSED
    return { kind: 'verified', eventId: headers.get('x-github-delivery') ?? undefined }
  }
}

/** Svix signs by Standard Webhooks under its own names. */
const STANDARD_PREFIXES = ['webhook', 'svix']

/**
 * Standard Webhooks, with a timestamp and a signed id: the event id is `webhook-id`, or `svix-id` of a provider that sends
 * with Svix. Symmetric signatures (`v1`) only.
 *
 * @param secrets - Base64, with or without `whsec_`, as the provider shows it.
 * @throws {@link ConfigurationError} that never shows a secret.
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function standardWebhook(secrets: Secrets, options: SignatureOptions = {}): WebhookVerifier {
  const keys = keysOf('standardWebhook', secrets, decodedKey)
  const toleranceMs = toleranceOf('standardWebhook', options)
  return ({ bytes, headers }, nowMs) => {
    const prefix = STANDARD_PREFIXES.find((each) => headers.has(`${each}-id`))
    const id = headers.get(`${prefix}-id`) ?? ''
    const timestamp = headers.get(`${prefix}-timestamp`) ?? undefined
    if (id === '' || !isRecent(timestamp, nowMs, toleranceMs)) return REFUSED
    const texts = (headers.get(`${prefix}-signature`) ?? '').split(' ').flatMap((each) => {
      const [version, base64 = ''] = each.split(',')
      return version === 'v1' ? [base64] : []
    })
    const given = { encoding: 'base64', texts } as const
    if (!isSigned(keys, [`${id}.${timestamp}.`, bytes], given)) return REFUSED
    return { kind: 'verified', eventId: id }
  }
}

/** The key of one secret of Standard Webhooks. */
export function standardKey(caller: string, secret: string): Buffer {
  const [key] = keysOf(caller, secret, decodedKey)
  return key as Buffer
}

function decodedKey(secret: string): Buffer {
  const base64 = secret.replace(/^whsec_/, '')
  const key = Buffer.from(base64, 'base64')
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(base64) && key.byteLength >= 16
  if (!isBase64) throw new ConfigurationError(NOT_BASE64)
  return key
}

const API_KEY =
  'Expected the signing secret of the webhook endpoint in stripeSignature (it begins with whsec_), got an API key.'
const NOT_BASE64 =
  'Expected the secret of standardWebhook to be Base64 of at least 16 bytes, with or without whsec_ before it. Copy it from the provider.'

function keysOf(
  caller: string,
  secrets: unknown,
  toKey: (secret: string) => Buffer,
): readonly Buffer[] {
  const list: readonly unknown[] = Array.isArray(secrets) ? secrets : [secrets]
  const isUsable = (secret: unknown): secret is string =>
    typeof secret === 'string' && secret.trim() !== ''
  if (list.length > 0 && list.every(isUsable)) {
    if (list.some((secret) => secret !== secret.trim())) {
      throw new ConfigurationError(
        `${caller} got a secret with white space at its beginning or end, such as the line feed of a file. Trim it: no delivery would be verified.`,
      )
    }
    return list.map(toKey)
  }
  // Never the value: it may be a secret with a typing error around it.
  throw new ConfigurationError(
    `${caller} expected a secret, or a list of secrets, and each must be a text that is not empty. Is the environment variable set?`,
  )
}

function toleranceOf(caller: string, options: SignatureOptions): number {
  refuseUnknownNames(caller, options, { toleranceMs: true })
  const { toleranceMs = SIGNATURE_DEFAULTS.toleranceMs } = options
  refuseProblems(rangeProblems('toleranceMs', toleranceMs, [1_000, 86_400_000]))
  return toleranceMs
}

/** Seconds since 1970, not too old and not from the future. */
function isRecent(
  timestamp: string | undefined,
  nowMs: number,
  toleranceMs: number,
): timestamp is string {
  if (!/^\d{1,12}$/.test(timestamp ?? '')) return false
  return Math.abs(nowMs - Number(timestamp) * 1_000) <= toleranceMs
}

interface Given {
  readonly encoding: 'hex' | 'base64'
  readonly texts: readonly string[]
}

/**
 * Whether any of the given signatures is that of any key. Compared in constant time, and as texts: decoders are lenient.
 */
function isSigned(
  keys: readonly Buffer[],
  signed: readonly (string | Uint8Array)[],
  { encoding, texts }: Given,
): boolean {
  let isEqual = false
  for (const key of keys) {
    const hmac = createHmac('sha256', key)
    for (const part of signed) hmac.update(part)
    const expected = Buffer.from(hmac.digest(encoding))
    for (const text of texts) {
      const given = Buffer.from(text)
      if (given.byteLength === expected.byteLength && timingSafeEqual(given, expected)) {
        isEqual = true
      }
    }
  }
  return isEqual
}

function idOfBody(bytes: Uint8Array): string | undefined {
  try {
    const { id } = Object(JSON.parse(Buffer.from(bytes).toString('utf8'))) as { id?: unknown }
    return typeof id === 'string' && id !== '' ? id : undefined
  } catch {
    return undefined
  }
}
