import {
  type CommonOptions,
  ConfigurationError,
  type Delivery,
  type Guard,
  type GuardOptions,
  type Settlement,
} from '@onceward/core'
import {
  answerWithin,
  type GuardPort,
  LATE,
  portOf,
  type RunHooks,
  withEnvelope,
} from '@onceward/core/adapter'
import {
  createCallerGuard,
  describeError,
  isPromise,
  type MaybeAsync,
  named,
} from '@onceward/core/edge'
import {
  acceptedOutcomeOf,
  lastProblem,
  type Outcome,
  outcomeOf,
  outcomeOfThrown,
  problem,
  type Refused,
  thrownAnswerOf,
} from './answer/outcome.ts'
import { HttpProblem } from './answer/problem.ts'
import { createLaterHandler, createRouteHandler, type RouteHandler } from './handler.ts'
import { openEarly } from './open-early.ts'
import { type AnyHttpOptions, DEFAULTS, type HttpHandler } from './options.ts'
import {
  codingOf,
  compared,
  type DecodedRequest,
  decodeRequest,
  isReadable,
  ofRequest,
} from './request/content.ts'
import type { Exchange, Identity } from './request/exchange.ts'
import {
  BodyTooLargeError,
  completeBody,
  type HttpRequest,
  headerOf,
  type IncomingRequest,
} from './request/request.ts'
import {
  BROKER,
  exchangeOf,
  REQUEST_HEADERS,
  storable,
  toStoredForm,
} from './request/stored-request.ts'

/** A guard of requests of any sender. */
export interface RequestGuardPlan {
  /** The function that the user called, for error texts. */
  readonly caller: string
  readonly options: AnyHttpOptions
  readonly handler: HttpHandler<unknown, unknown>
  /** Whose key a request has, or the answer to a request without one. Nothing is stored before. */
  readonly identify: (
    request: HttpRequest,
    incoming: IncomingRequest,
  ) => MaybeAsync<Identity | Refused>
  /** The answer to a duplicate of an event that is done and has no stored answer. Default: a problem. */
  readonly unanswered?: Outcome | undefined
  /** Given if a request holds several events. None of them has an answer of its own. */
  readonly split?: SplitPlan | undefined
  /** Given if the handler runs after the answer, from what is stored. */
  readonly later?: LaterPlan | undefined
}

/** How the events of a delivery are found, and the key of each. */
export interface SplitPlan {
  readonly itemsOf: (delivery: {
    readonly payload: unknown
    readonly request: HttpRequest
  }) => readonly unknown[] | Promise<readonly unknown[]>
  readonly keyOf: (item: {
    readonly payload: unknown
    readonly request: HttpRequest
  }) => string | undefined
}

/** How a handler runs after the answer. */
export interface LaterPlan extends Pick<CommonOptions<unknown, unknown>, 'retry' | 'isFatal'> {
  /** Lower-case names of the headers of a request that are stored, and that the handler gets. */
  readonly requestHeaders: readonly string[]
}

/** How long the caller can wait for the handler, milliseconds. Undefined: as long as its deadline. */
type LeftMs = () => number | undefined

/** Methods that have effects. A safe method needs no key, and repeating it does no harm. */
const METHODS: readonly string[] = ['POST', 'PUT', 'PATCH', 'DELETE']

/** Most content types that are reported, and characters of each: senders choose them. */
const MOST_TYPES = 10
const LONGEST_TYPE = 100

/** Takes requests through the guard and never rejects. */
export class RunningHttpGuard {
  readonly guard: Guard
  readonly port: GuardPort
  readonly #plan: RequestGuardPlan
  readonly #route: RouteHandler
  readonly #source: Delivery['source']
  readonly #endOpening: () => void
  readonly #refusedTypes = new Set<string>()
  #inFlight = 0
  /** Requests that the engine has: running, or waiting with their bodies in memory. */
  #held = 0

  /** @throws {@link ConfigurationError} */
  constructor(plan: RequestGuardPlan) {
    const { caller, handler, later, options, split } = plan
    if (typeof handler !== 'function') {
      throw new ConfigurationError(
        `Expected a handler as the second argument of ${caller}, got ${handler === null ? 'null' : typeof handler}. Write \`${caller}(options, async ({ payload }, { tx }) => { … })\`.`,
      )
    }
    this.#plan = plan
    this.#source = { broker: BROKER, queue: options.consumer }
    this.#route = createRouteHandler(options, handler, () => this.port.logger)
    this.guard = createCallerGuard(caller, engineOptions(plan, this.#route), {
      handler:
        later === undefined && split === undefined
          ? this.#route.handler
          : createLaterHandler(handler, split !== undefined),
      isAnswer: HttpProblem.is,
      runsLater: later !== undefined,
    })
    this.port = portOf(this.guard)
    // Deliveries that other processes have accepted may wait, and perhaps no request comes.
    this.#endOpening = later === undefined ? () => undefined : openEarly(this.port)
  }

  close(): Promise<void> {
    this.#endOpening()
    return this.guard.close()
  }

  get maxBodyBytes(): number {
    return this.#plan.options.maxBodyBytes ?? DEFAULTS.maxBodyBytes
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** @param budgetMs - Milliseconds until the handler must have ended, if that is less than its deadline. */
  async handle(incoming: IncomingRequest, budgetMs?: number): Promise<Outcome> {
    const { runtime } = this.port
    const endsAtMs = budgetMs === undefined ? undefined : runtime.monotonic() + budgetMs
    this.#inFlight += 1
    try {
      return await this.#handle(
        incoming,
        () => endsAtMs && Math.max(1, endsAtMs - runtime.monotonic()),
      )
    } catch (error) {
      const outcome = outcomeOfThrown(error)
      if (outcome.kind === 'threw') this.#report(outcome.error, incoming)
      return outcome
    } finally {
      this.#inFlight -= 1
    }
  }

  /** The engine reports what a handler throws. This is what was thrown before it or after it. */
  #report(error: unknown, { isGone }: IncomingRequest): void {
    const { logger } = this.port
    const fields = { consumer: this.guard.consumer, err: describeError(error) }
    if (isGone()) logger.debug(fields, 'a client hung up before its request was whole')
    else logger.error(fields, 'a request failed outside of its handler: look at the error')
  }

  /** The answer is stored, so a retry gets it. */
  reportUnsent(error: unknown): void {
    const fields = { consumer: this.guard.consumer, err: describeError(error) }
    const text = 'an answer could not be written: look at what wraps the response'
    this.port.logger.error(fields, text)
  }

  /** The handler itself, or a middleware that limits the time of requests. */
  reportAnswered(): void {
    const fields = { consumer: this.guard.consumer }
    this.port.logger.warn(
      fields,
      'something else answered a request, and retries get the answer of the guard: return the answer from the handler',
    )
  }

  async #handle(incoming: IncomingRequest, leftMs: LeftMs): Promise<Outcome> {
    const { method } = incoming
    if (!METHODS.includes(method)) {
      return problem('method-not-allowed', { headers: { allow: METHODS.join(', ') } })
    }
    const bytes = await this.#read(incoming)
    if ('kind' in bytes) return bytes
    const { maxWaiting = DEFAULTS.maxWaiting } = this.#plan.options
    if (this.#held >= this.port.settings.concurrency + maxWaiting) {
      return problem('overloaded', { headers: { 'retry-after': '1' } })
    }
    this.#held += 1
    try {
      return await this.#identifyAndRun(incoming, bytes, leftMs)
    } finally {
      this.#held -= 1
    }
  }

  async #identifyAndRun(
    incoming: IncomingRequest,
    bytes: Uint8Array,
    leftMs: LeftMs,
  ): Promise<Outcome> {
    const request = incoming.withBytes(bytes)
    const identifying = this.#plan.identify(request, incoming)
    const identity = isPromise(identifying)
      ? await this.#inTime(identifying, leftMs())
      : identifying
    if (identity === LATE) return problem('timed-out', { headers: { 'retry-after': '1' } })
    if ('kind' in identity) return identity.outcome
    const { decode, onHangUp } = this.#plan.options
    const contentType = identity.contentType ?? headerOf(incoming, 'content-type')
    if (decode === undefined && !isReadable(incoming, bytes, contentType)) {
      this.#warnOfContentType(contentType)
      return problem('unsupported-media-type', {
        detail: 'Send JSON in UTF-8, with the content coding gzip, deflate or br, or without one.',
        headers: { 'accept-post': 'application/json', 'accept-encoding': 'gzip, deflate, br' },
      })
    }
    const abort = onHangUp === 'abort' ? { abort: incoming.hangUp() } : {}
    const hooks = { ...abort, budgetMs: leftMs() }
    const { target } = incoming
    const coding = codingOf(incoming)
    const types = { contentType, contentEncoding: coding }
    return this.#run({ ...identity, request: this.#seen(request), target, ...types }, hooks)
  }

  /** A sender that nobody can ask gives up, so each content type is reported once. */
  #warnOfContentType(contentType: string | undefined): void {
    const shown = String(contentType).slice(0, LONGEST_TYPE)
    if (this.#refusedTypes.has(shown) || this.#refusedTypes.size >= MOST_TYPES) return
    this.#refusedTypes.add(shown)
    this.port.logger.warn(
      { consumer: this.guard.consumer, contentType: shown },
      'a request is answered 415 because its body is not JSON, or is compressed: set the option `decode` to read it',
    )
  }

  /** The user's function may give no answer. */
  async #inTime<Answer>(
    identifying: Promise<Answer>,
    leftMs = Number.POSITIVE_INFINITY,
  ): Promise<Answer | typeof LATE> {
    const { logger, runtime, settings } = this.port
    const limitMs = Math.min(settings.deadlineMs, leftMs)
    const answer = await answerWithin(runtime, identifying, limitMs)
    if (answer === LATE) {
      logger.error(
        { consumer: this.guard.consumer },
        '`tenant` or `verify` gave no answer within deadlineMs, so a request is answered 503: look at what the function waits for',
      )
    }
    return answer
  }

  /** What runs later sees at once what it will see then, so that a function that needs more fails here. */
  #seen(request: HttpRequest): HttpRequest {
    const { later } = this.#plan
    return later === undefined ? request : storable(request, later.requestHeaders)
  }

  async #read(incoming: IncomingRequest): Promise<Uint8Array | Outcome> {
    const { maxBodyBytes } = this
    try {
      return completeBody(incoming, await incoming.readBytes(maxBodyBytes))
    } catch (error) {
      if (!(error instanceof BodyTooLargeError)) throw error
      // The rest of the body is still on the connection.
      return lastProblem('body-too-large', { detail: `The limit is ${maxBodyBytes} bytes.` })
    }
  }

  async #run(exchange: Exchange, hooks: RunHooks): Promise<Outcome> {
    const settlements = await this.port.run([this.#toDelivery(exchange)], hooks)
    const [settlement] = settlements as readonly [Settlement]
    const nowMs = this.port.runtime.now()
    if (this.#plan.later !== undefined) return acceptedOutcomeOf(settlement, nowMs)
    const thrown = this.#plan.split === undefined ? thrownAnswerOf(settlement) : undefined
    if (thrown !== undefined && exchange.decided === undefined) {
      // The run was rolled back. Its answer is committed with the key by a second one, unless a retry was faster.
      const decided = this.#route.toDecided(thrown)
      return this.#run({ ...exchange, decided }, hooks)
    }
    const { unanswered } = this.#plan
    return outcomeOf(settlement, { nowMs, unanswered })
  }

  /** Headers may be credentials, so they are left out, except those that are stored. */
  #toDelivery(exchange: Exchange): Delivery {
    const { later } = this.#plan
    const { contentEncoding, contentType, key, request } = exchange
    return withEnvelope(
      {
        body: request.bytes,
        ...(later === undefined
          ? { headers: {} }
          : {
              headers: Object.fromEntries(request.headers),
              producedAt: new Date(this.port.runtime.now()),
            }),
        source: this.#source,
        contentType,
        contentEncoding,
        messageId: key,
        raw: exchange,
      },
      // Few deliveries of a guard that runs its events at once are stored.
      () => toStoredForm(exchange, later?.requestHeaders ?? REQUEST_HEADERS),
    )
  }
}

function engineOptions(
  { later, options, split }: RequestGuardPlan,
  { takeOver }: RouteHandler,
): GuardOptions<unknown, unknown> {
  const { decode, fingerprint, onTakeover, schema, tenant } = options
  const { storedHeaders, maxBodyBytes, maxWaiting, onHangUp, ...engine } = options
  return {
    ...engine,
    ...(later && { retry: later.retry, isFatal: later.isFatal }),
    ...(onTakeover === undefined
      ? {}
      : { onTakeover: typeof onTakeover === 'function' ? takeOver : onTakeover }),
    decode: named('http', undefined, (bytes: Uint8Array, delivery: Delivery) =>
      decodeRequest(exchangeOf(delivery), bytes, { decode, schema }),
    ),
    // A request may become no larger by its content coding than one without may be.
    maxInflatedBytes: maxBodyBytes,
    schema: ofRequest(schema),
    eventKey: (delivery) => exchangeOf(delivery).key,
    ...(tenant === 'none'
      ? { tenant: undefined }
      : { tenant: (delivery) => exchangeOf(delivery).tenant }),
    fingerprint:
      fingerprint === 'none'
        ? 'none'
        : named('http', undefined, (decoded: unknown) =>
            compared(decoded as DecodedRequest, fingerprint),
          ),
    ...(split && splitOptions(split, options)),
    onConflict: split === undefined ? 'ack' : 'dead-letter',
  } as GuardOptions<unknown, unknown>
}

/** Then schema, key and fingerprint are those of an item. Only `decode` sees the request. */
function splitOptions(
  { itemsOf, keyOf }: SplitPlan,
  { fingerprint, schema }: AnyHttpOptions,
): Partial<GuardOptions<unknown, unknown>> {
  return {
    split: (delivery) =>
      itemsOf({
        payload: (delivery.payload as DecodedRequest).payload,
        request: exchangeOf(delivery).request,
      }),
    eventKey: (item) => keyOf({ payload: item.payload, request: exchangeOf(item).request }),
    schema,
    fingerprint,
  }
}
