import type { CommonOptions, WholePayload } from '@onceward/core'
import { type KnownNames, quoted, refuseProblems, refuseUnknownNames } from '@onceward/core/adapter'
import { aFunction, brokenRules } from '@onceward/core/edge'
import { systemRuntime } from '@onceward/core/ports'
import { problem, type Refused, statusOnly } from '../answer/outcome.ts'
import { HttpProblem } from '../answer/problem.ts'
import { type HttpGuard, makeHttpGuard, ofCaller } from '../http-guard.ts'
import {
  type AnyHttpOptions,
  type CommonHttpOptions,
  checkOptions,
  HTTP_NAMES,
  type HttpHandler,
  headerNameProblems,
  type InboxHttpOptions,
  type LeaseHttpOptions,
} from '../options.ts'
import type { Identity } from '../request/exchange.ts'
import type { HttpRequest } from '../request/request.ts'
import { CREDENTIALS, REQUEST_HEADERS } from '../request/stored-request.ts'
import { type LaterPlan, RunningHttpGuard } from '../running-guard.ts'
import type { WebhookVerdict, WebhookVerifier } from './signatures.ts'

/** What a guard of webhooks takes besides the options of `createHttpGuard`. */
export interface WebhookOptions {
  /** Who may send deliveries, and where their event id is: `stripeSignature(secret)`, … or a function of your own. */
  readonly verify: WebhookVerifier
  /** The account to which event ids belong. Default: `'none'`, because providers give each event an id of its own. */
  readonly tenant?: CommonHttpOptions<unknown, unknown>['tenant'] | undefined
}

/** A delivery with several events, such as the arrays of SendGrid. */
export interface SplitOptions<Payload, Decoded> {
  /**
   * Finds the events in a delivery, at most 10,000. Each item is an event of its own, as with `split` of `createGuard`:
   * `schema`, `fingerprint` and the handler get the item. The delivery is answered 200 when all are done or recorded as
   * dead, else 5xx, and its retry runs only those that are not done. What the handler returns is ignored. Default: a
   * delivery is one event.
   */
  readonly split?:
    | ((delivery: {
        readonly payload: WholePayload<Decoded>
        readonly request: HttpRequest
      }) => readonly unknown[] | Promise<readonly unknown[]>)
    | undefined
  /** The id of an item. Required with `split`, where the id of `verify` is not used. */
  readonly eventKey?:
    | ((item: {
        readonly payload: NoInfer<Payload>
        readonly request: HttpRequest
      }) => string | undefined)
    | undefined
}

/** The handler runs while the provider waits, and answers it. */
export interface RunNow {
  readonly run?: 'now' | undefined
}

/**
 * The delivery is stored in the inbox, the provider is answered 202, and the poller of a guard of this consumer runs the
 * handler: in this process at once, or in any other one if this process dies. The return value of the handler is ignored.
 */
export interface RunLater {
  readonly run: 'later'
  /**
   * Attempts and back-off of the handler, as of `createGuard`. Afterwards the event is a dead letter of the inbox.
   * Default: 10 attempts, from 1 s to 5 min apart.
   */
  readonly retry?: CommonOptions<unknown, unknown>['retry']
  /** Whether an error can't be fixed by a retry. `FatalError`, and `HttpProblem` with `store: true`, are always fatal. */
  readonly isFatal?: CommonOptions<unknown, unknown>['isFatal']
  /**
   * Names of request headers that are stored with a delivery, besides `REQUEST_HEADERS`. The handler, `decode` and
   * `schema` see no others. Credentials (`Authorization`, `Cookie`) are refused. Default: none.
   */
  readonly requestHeaders?: readonly string[] | undefined
  /** The row of the delivery decides. */
  readonly leases?: undefined
  /** No client waits for an answer. */
  readonly storedHeaders?: undefined
  readonly onHangUp?: undefined
}

/** Options of `createWebhookGuard`. */
export type WebhookGuardOptions<Payload, Tx = undefined, Decoded = unknown> = WebhookOptions &
  SplitOptions<Payload, Decoded> &
  (
    | (RunNow &
        (
          | Omit<InboxHttpOptions<Payload, Tx, Decoded>, 'tenant'>
          | Omit<LeaseHttpOptions<Payload, Decoded>, 'tenant'>
        ))
    | (RunLater & Omit<InboxHttpOptions<Payload, Tx, Decoded>, 'tenant' | keyof RunLater>)
  )

/** Any options, after the types of the payload and the transaction are forgotten. */
type AnyWebhookOptions = AnyHttpOptions &
  WebhookOptions &
  SplitOptions<unknown, unknown> &
  Partial<Pick<RunLater, 'retry' | 'isFatal' | 'requestHeaders'>> & {
    readonly run?: 'now' | 'later' | undefined
  }

/**
 * Guards the handler of a provider's webhooks: for each event of the provider its committed effect happens once.
 *
 * The signature is checked first, over the raw bytes. A delivery without a good one is answered 401, and nothing of it is
 * stored or logged. Then the provider's event id is the key: a duplicate gets the stored answer again, and a handler that
 * throws is rolled back and answered 500, so that the provider delivers again. A handler that returns nothing answers 200.
 *
 * With `run: 'later'` the provider gets 202 as soon as the delivery is stored, and so do all duplicates. The handler runs
 * afterwards, with the guard's own retries. Such a guard opens its inbox when it is made, and runs in no order.
 *
 * The guard works with `expressRoute`, `fastifyRoute`, `honoRoute` and `nodeListener`, like that of `createHttpGuard`.
 * Unlike there, `fingerprint` is `'none'` by default: providers change details of an event when they deliver it again.
 *
 * @throws {@link ConfigurationError} naming every invalid option.
 *
 * @example
 * ```ts
 * import { expressRoute } from '@onceward/http/express'
 * import { createWebhookGuard, stripeSignature } from '@onceward/http/webhooks'
 *
 * const paid = createWebhookGuard(
 *   { consumer: 'webhooks.stripe', inbox, verify: stripeSignature(secret) },
 *   async ({ key }, { tx }) => {
 *     await tx.query('insert into payments (event_id) values ($1)', [key])
 *   },
 * )
 * app.post('/webhooks', expressRoute(paid))
 * ```
 */
export function createWebhookGuard<Tx = undefined, Decoded = unknown, Payload = Decoded>(
  options: WebhookGuardOptions<Payload, Tx, Decoded>,
  handler: HttpHandler<Payload, Tx>,
): HttpGuard {
  const caller = 'createWebhookGuard'
  const all = Object(options) as AnyWebhookOptions
  refuseUnknownNames(caller, all, WEBHOOK_NAMES)
  const { fingerprint = 'none', tenant = 'none' } = all
  const given = { ...all, fingerprint, tenant }
  checkOptions(caller, given, WEBHOOK_NAMES)
  const { eventKey, isFatal, requestHeaders, retry, run, split, verify, ...own } = given
  refuseProblems([...verifierProblems(verify), ...runProblems(given), ...splitProblems(given)])
  const clock = own.runtime ?? systemRuntime
  const running: RunningHttpGuard = new RunningHttpGuard({
    caller,
    options: own,
    handler: withAnswer(handler as HttpHandler<unknown, unknown>),
    identify: async (request) => {
      const verdict = await verify(request, clock.now())
      const note = (...line: readonly [object, string]): void => logNote(running, ...line)
      return identify(own, request, { verdict, note, isSplit: split !== undefined })
    },
    // Another process of the consumer ran the event with `run: 'later'`.
    unanswered: statusOnly(200),
    ...(split && eventKey ? { split: { itemsOf: split, keyOf: eventKey } } : {}),
    ...(run === 'later' ? { later: laterPlan({ isFatal, requestHeaders, retry }) } : {}),
  })
  if (verify.advice !== undefined) logNote(running, {}, verify.advice)
  return makeHttpGuard(running)
}

function logNote({ guard, port }: RunningHttpGuard, fields: object, note: string): void {
  port.logger.warn({ consumer: guard.consumer, ...fields }, note)
}

const WEBHOOK_NAMES: KnownNames<AnyWebhookOptions> = {
  ...HTTP_NAMES,
  verify: true,
  split: true,
  eventKey: true,
  run: true,
  retry: true,
  isFatal: true,
  requestHeaders: true,
}

function verifierProblems(verify: unknown): readonly string[] {
  if (typeof verify === 'function') return []
  return [
    `Expected \`verify\` to be stripeSignature(secret), githubSignature(secret), standardWebhook(secret), snsSignature() or a function, got ${quoted(typeof verify)}. Without it, anybody could send events.`,
  ]
}

/** Options that have no effect are refused, because their user expects one. */
function runProblems(given: AnyWebhookOptions): readonly string[] {
  const { inbox, run = 'now' } = given
  if (run !== 'now' && run !== 'later') {
    return [`Expected \`run\` to be 'now' or 'later', got ${quoted(run)}.`]
  }
  const useless = (names: readonly (keyof AnyWebhookOptions)[], why: string): readonly string[] =>
    names
      .filter((name) => given[name] !== undefined)
      .map((name) => `Expected no \`${name}\` with \`run: '${run}'\`: ${why} Leave it out.`)
  if (run === 'now') {
    return useless(
      ['retry', 'isFatal', 'requestHeaders'],
      'the provider retries, and the handler gets the whole request.',
    )
  }
  return [
    ...(inbox === undefined
      ? [
          "Expected an `inbox` with `run: 'later'`: a delivery is stored there before it is answered, and a lease store keeps no deliveries. Give `inbox: pgInbox(pool)`.",
        ]
      : useless(['leases'], 'the row of the stored delivery decides.')),
    ...useless(['storedHeaders', 'onHangUp'], 'the provider is answered before the handler runs.'),
    ...headerNameProblems('requestHeaders', given.requestHeaders, {
      refused: CREDENTIALS,
      why: 'a credential must not be stored with an event. Check it in `verify`, and leave it out',
    }),
  ]
}

function splitProblems({ eventKey, split }: AnyWebhookOptions): readonly string[] {
  if (split === undefined) {
    return eventKey === undefined
      ? []
      : [
          'Expected no `eventKey` without `split`: the event id of `verify` is the key. Leave it out.',
        ]
  }
  return brokenRules(
    'createWebhookGuard',
    { split: aFunction, eventKey: aFunction },
    // Without it, all items of a delivery would have one key.
    { split, eventKey: eventKey ?? 'nothing' },
  )
}

function laterPlan({
  isFatal,
  requestHeaders = [],
  retry,
}: Pick<RunLater, 'isFatal' | 'requestHeaders' | 'retry'>): LaterPlan {
  return {
    retry,
    requestHeaders: [...REQUEST_HEADERS, ...requestHeaders.map((name) => name.toLowerCase())],
    // The answer is decided, and no client waits for it. A value that is not a function is refused with the other options.
    isFatal:
      isFatal !== undefined && typeof isFatal !== 'function'
        ? isFatal
        : (error) => (HttpProblem.is(error) && error.store) || (isFatal?.(error) ?? false),
  }
}

/** A handler may return nothing: providers look only at the status. */
function withAnswer(handler: HttpHandler<unknown, unknown>): HttpHandler<unknown, unknown> {
  // A handler that is not a function is refused later, with the other options.
  if (typeof handler !== 'function') return handler
  return async (event, context) => (await handler(event, context)) ?? { status: 200 }
}

interface Verified {
  /** A verifier written by the user may return anything: only what is known here is accepted. */
  readonly verdict: WebhookVerdict | undefined
  readonly note: (fields: object, note: string) => void
  readonly isSplit: boolean
}

async function identify(
  { tenant }: AnyHttpOptions,
  request: HttpRequest,
  { isSplit, note, verdict }: Verified,
): Promise<Identity | Refused> {
  if (verdict?.kind === 'handled') {
    note(verdict.fields ?? {}, String(verdict.note))
    return { kind: 'refused', outcome: statusOnly(200) }
  }
  if (verdict?.kind !== 'verified') {
    return { kind: 'refused', outcome: problem('signature-refused') }
  }
  const { contentType } = verdict
  // The items of a delivery have ids of their own.
  const eventId = isSplit ? 'several' : verdict.eventId
  if (typeof eventId !== 'string' || eventId === '') {
    return { kind: 'refused', outcome: problem('event-id-missing') }
  }
  const identity = tenant === 'none' ? { key: eventId } : ofCaller(eventId, await tenant(request))
  return 'kind' in identity ? identity : { ...identity, contentType }
}
