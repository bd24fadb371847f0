import { ConfigurationError, InvalidPayloadError } from '@onceward/core'
import { attachHealthPort, attachRoutePort, type Backlog, pauseOf } from '@onceward/core/adapter'
import { afterAnswer, type MaybeAsync, toEventKey } from '@onceward/core/edge'
import { type Outcome, type ProblemName, problem, type Refused } from './answer/outcome.ts'
import { toWebResponse } from './answer/reply.ts'
import {
  type AnyHttpOptions,
  checkOptions,
  HTTP_NAMES,
  type HttpGuardOptions,
  type HttpHandler,
} from './options.ts'
import type { Identity } from './request/exchange.ts'
import { KEY_HEADER, type ParsedKey, parseIdempotencyKey } from './request/idempotency-key.ts'
import { fromWebRequest, type HttpRequest, type IncomingRequest } from './request/request.ts'
import { RunningHttpGuard } from './running-guard.ts'

export interface HttpHealth {
  /**
   * `unavailable`: a store failed, and requests are answered 503 without asking it, for half a minute at most. Then the
   * next request asks it again, so that a load balancer may send requests to `ready` guards alone.
   */
  readonly state: 'ready' | 'unavailable' | 'closed'
  /** Requests that have no answer yet. */
  readonly inFlight: number
  /**
   * With `run: 'later'` of `createWebhookGuard`: the accepted deliveries that wait for a run or its retry or are running,
   * in all processes, and how long the first of them has been due, milliseconds. Read every five seconds. Undefined
   * before the first look, and otherwise.
   */
  readonly waiting?: { readonly deliveries: number; readonly dueForMs: number } | undefined
  /** Dependencies whose last call failed, including those that the guard can work without. */
  readonly outages: readonly { readonly dependency: string; readonly error: unknown }[]
}

/** A guarded route. */
export interface HttpGuard {
  readonly consumer: string
  /** Answers a Web Request. Never rejects: a handler that throws is answered 500. */
  fetch(request: Request): Promise<Response>
  /**
   * Opens the stores now instead of at the first request, so that configuration errors appear at start.
   *
   * @throws {@link ConfigurationError} | {@link StoreUnavailableError}
   */
  open(): Promise<void>
  health(): HttpHealth
  /**
   * Answers new requests 503, lets running handlers end within `deadlineMs`, and clears all timers. Stop the server's
   * intake first, close its clients after.
   */
  close(): Promise<void>
}

const PORT = Symbol.for('onceward.http-guard')

/**
 * Guards the handler of a route: for each idempotency key of a caller its committed effect happens once, and every
 * retry gets the same answer.
 *
 * With an inbox, the handler writes through `tx`, the transaction that also holds the row of the key and the answer.
 * Answers that are returned are stored, so are those of `HttpProblem` with `store: true`. Anything else that is thrown
 * rolls back, and the key is free again at once.
 *
 * @throws {@link ConfigurationError} naming every invalid option.
 *
 * @example
 * ```ts
 * import { createHttpGuard } from '@onceward/http'
 * import { expressRoute } from '@onceward/http/express'
 *
 * const charge = createHttpGuard(
 *   { consumer: 'charges.create', inbox, schema: OrderPlaced, tenant: 'none' },
 *   async ({ payload: { orderId, cents } }, { tx }) => {
 *     await tx.query('insert into charges (order_id, cents) values ($1, $2)', [orderId, cents])
 *     return { status: 201, body: { orderId } }
 *   },
 * )
 * app.post('/charges', expressRoute(charge))
 * ```
 */
export function createHttpGuard<Tx = undefined, Decoded = unknown, Payload = Decoded>(
  options: HttpGuardOptions<Payload, Tx, Decoded>,
  handler: HttpHandler<Payload, Tx>,
): HttpGuard {
  const caller = 'createHttpGuard'
  const own = options as unknown as AnyHttpOptions
  checkOptions(caller, own, HTTP_NAMES)
  return makeHttpGuard(
    new RunningHttpGuard({
      caller,
      // The option is about the body: under a used key, another route is another request.
      options: own.fingerprint === 'none' ? { ...own, fingerprint: () => null } : own,
      handler: handler as HttpHandler<unknown, unknown>,
      identify: (request, incoming) => identify(own, request, incoming),
    }),
  )
}

/** The guard as its user sees it. */
export function makeHttpGuard(running: RunningHttpGuard): HttpGuard {
  const { guard, port } = running
  const fetch = async (request: Request, budgetMs?: number): Promise<Response> =>
    toWebResponse(replyTo(await running.handle(fromWebRequest(request), budgetMs)))
  const made: HttpGuard = {
    consumer: guard.consumer,
    // Servers such as Bun's call it with more arguments of their own.
    fetch: (request) => fetch(request),
    open: () => port.open(),
    health: () => ({
      state: port.closing.aborted ? 'closed' : pauseOf(port) ? 'unavailable' : 'ready',
      inFlight: running.inFlight,
      ...waitingOf(port.backlog()),
      outages: port.outages(),
    }),
    close: () => running.close(),
  }
  attachHealthPort(made, port)
  attachRoutePort(made, { port, fetch })
  Object.defineProperty(made, PORT, { value: running })
  return made
}

function waitingOf(backlog: Backlog | undefined): Pick<HttpHealth, 'waiting'> {
  if (backlog === undefined) return {}
  const { dueForMs, events: deliveries } = backlog
  return { waiting: { deliveries, dueForMs } }
}

/** The whole answer, where there is no error handler of a framework. */
export function replyTo(outcome: Outcome): Extract<Outcome, { readonly kind: 'reply' }>['reply'] {
  if (outcome.kind === 'reply') return outcome.reply
  return replyTo(problem('failed'))
}

/** @throws {@link ConfigurationError} if `guard` was not made by `createHttpGuard`. */
export function runningOf(caller: string, guard: HttpGuard): RunningHttpGuard {
  const running: unknown = Reflect.get(Object(guard), PORT)
  if (running === undefined) {
    throw new ConfigurationError(`${caller} expected a guard made by createHttpGuard().`)
  }
  return running as RunningHttpGuard
}

const KEY_PROBLEMS: Readonly<Record<Exclude<ParsedKey['kind'], 'key'>, ProblemName>> = {
  missing: 'key-missing',
  repeated: 'key-repeated',
  malformed: 'key-malformed',
}

const KEY_HELP =
  'Send one Idempotency-Key header of 1 to 255 visible characters: a new one for each intent, and the same one with each retry.'

const refused = (outcome: Outcome): Refused => ({ kind: 'refused', outcome })

function identify(
  { tenant }: AnyHttpOptions,
  request: HttpRequest,
  { valuesOf }: IncomingRequest,
): MaybeAsync<Identity | Refused> {
  const parsed = parseIdempotencyKey(valuesOf(KEY_HEADER))
  if (parsed.kind !== 'key') {
    return refused(problem(KEY_PROBLEMS[parsed.kind], { detail: KEY_HELP }))
  }
  const { key } = parsed
  if (tenant === 'none') return { key }
  return afterAnswer<unknown, Identity | Refused>(tenant(request), (found) => ofCaller(key, found))
}

/**
 * The key of a caller that `tenant` has found.
 *
 * @throws TypeError for what names no caller. The client cannot fix it.
 */
export function ofCaller(key: string, found: unknown): Identity | Refused {
  // No identity is never an identity that callers share.
  if (found === undefined || found === null || found === '') {
    return refused(problem('caller-unknown'))
  }
  if (typeof found === 'string' || Number.isSafeInteger(found)) return withTenant(key, `${found}`)
  throw new TypeError(
    `Expected \`tenant\` to return a string, or undefined for an unknown caller, got a value of type ${typeof found}.`,
  )
}

function withTenant(key: string, tenant: string): Identity | Refused {
  try {
    toEventKey(tenant, "caller's identity")
  } catch (error) {
    if (!(error instanceof InvalidPayloadError)) throw error
    return refused(problem('caller-unknown', { detail: error.message }))
  }
  return { key, tenant }
}
