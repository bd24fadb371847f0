import { ConfigurationError, systemRuntime } from '@onceward/core'
import { quoted } from '@onceward/core/adapter'
import type { Identity } from './exchange.ts'
import { type HttpGuard, makeHttpGuard } from './http-guard.ts'
import {
  type AnyHttpOptions,
  type CommonHttpOptions,
  checkOptions,
  HTTP_NAMES,
  type HttpHandler,
  type InboxHttpOptions,
  type LeaseHttpOptions,
} from './options.ts'
import { problem } from './outcome.ts'
import type { HttpRequest } from './request.ts'
import { type Refused, RunningHttpGuard } from './running-guard.ts'
import type { WebhookVerifier } from './signatures.ts'

/** What a guard of webhooks takes besides the options of `createHttpGuard`. */
export interface WebhookOptions {
  /** Who may send deliveries, and where their event id is: `stripeSignature(secret)`, … or a function of your own. */
  readonly verify: WebhookVerifier
  /** The account to which event ids belong. Default: `'none'`, because providers give each event an id of its own. */
  readonly tenant?: CommonHttpOptions<unknown, unknown>['tenant'] | undefined
}

/** Options of `createWebhookGuard`. */
export type WebhookGuardOptions<Payload, Tx = undefined, Decoded = unknown> = WebhookOptions &
  (
    | Omit<InboxHttpOptions<Payload, Tx, Decoded>, 'tenant'>
    | Omit<LeaseHttpOptions<Payload, Decoded>, 'tenant'>
  )

/**
 * Guards the handler of a provider's webhooks: for each event of the provider its committed effect happens once.
 *
 * The signature is checked first, over the raw bytes. A delivery without a good one is answered 401, and nothing of it is
 * stored or logged. Then the provider's event id is the key: a duplicate gets the stored answer again, and a handler that
 * throws is rolled back and answered 500, so that the provider delivers again. A handler that returns nothing answers 200.
 *
 * The guard works with `expressRoute`, `fastifyRoute`, `honoRoute` and `nodeListener`, like that of `createHttpGuard`.
 * Unlike there, `fingerprint` is `'none'` by default: providers change details of an event when they deliver it again.
 *
 * @throws {@link ConfigurationError} naming every invalid option.
 */
export function createWebhookGuard<Tx = undefined, Decoded = unknown, Payload = Decoded>(
  options: WebhookGuardOptions<Payload, Tx, Decoded>,
  handler: HttpHandler<Payload, Tx>,
): HttpGuard {
  const caller = 'createWebhookGuard'
  const given = { tenant: 'none', fingerprint: 'none', ...Object(options) } as AnyHttpOptions &
    WebhookOptions
  checkOptions(caller, given, { ...HTTP_NAMES, verify: true })
  const { verify, ...own } = given
  if (typeof verify !== 'function') {
    throw new ConfigurationError(
      `Expected \`verify\` to be stripeSignature(secret), githubSignature(secret), standardWebhook(secret) or a function, got ${quoted(typeof verify)}. Without it, anybody could send events.`,
    )
  }
  const nowMs = (own.runtime ?? systemRuntime).now
  return makeHttpGuard(
    new RunningHttpGuard({
      caller,
      options: own,
      handler: withAnswer(handler as HttpHandler<unknown, unknown>),
      identify: (request) => identify(own, request, verify(request, nowMs())),
    }),
  )
}

/** A handler may return nothing: providers look only at the status. */
function withAnswer(handler: HttpHandler<unknown, unknown>): HttpHandler<unknown, unknown> {
  // A handler that is not a function is refused later, with the other options.
  if (typeof handler !== 'function') return handler
  return async (event, context) => (await handler(event, context)) ?? { status: 200 }
}

async function identify(
  { tenant }: AnyHttpOptions,
  request: HttpRequest,
  verifying: ReturnType<WebhookVerifier>,
): Promise<Identity | Refused> {
  const verdict = await verifying
  // A verifier written by the user may return anything: only `verified` is accepted.
  if (verdict?.kind !== 'verified') {
    return { kind: 'refused', outcome: problem('signature-refused') }
  }
  const { eventId } = verdict
  if (typeof eventId !== 'string' || eventId === '') {
    return { kind: 'refused', outcome: problem('event-id-missing') }
  }
  if (tenant === 'none') return { key: eventId }
  const found = await tenant(request)
  if (typeof found === 'string' && found !== '') return { key: eventId, tenant: found }
  return { kind: 'refused', outcome: problem('caller-unknown') }
}
