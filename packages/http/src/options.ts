import type { CommonOptions, HandlerContext, Inbox, LeaseStore } from '@onceward/core'
import {
  type KnownNames,
  quoted,
  rangeProblems,
  refuseProblems,
  refuseUnknownNames,
} from '@onceward/core/adapter'
import { aFunction, brokenRules, standardSchema } from '@onceward/core/edge'
import type { Runtime } from '@onceward/core/ports'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { HttpAnswer } from './answer/answer.ts'
import type { HttpRequest } from './request/request.ts'

/** What a handler gets: the request with its payload. */
export interface HttpEvent<Payload> {
  readonly payload: Payload
  readonly request: HttpRequest
  /** The client's key, without quotes. */
  readonly key: string
  readonly tenant?: string | undefined
  /** The same for all retries and processes. Pass it to services outside the transaction. */
  readonly idempotencyKey: string
}

/** Anything that {@link HttpAnswer} says, a Response that is not streaming, or nothing, which is status 204. */
export type Answered = HttpAnswer | Response | undefined

export type HttpHandler<Payload, Tx = undefined> = (
  event: HttpEvent<Payload>,
  context: HandlerContext<Tx>,
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler that answers 204 returns nothing
) => Answered | void | Promise<Answered | void>

/** Options of every guard of a route. Those of the engine mean what they mean for `createGuard`. */
export interface CommonHttpOptions<Payload, Decoded>
  extends Pick<
    CommonOptions<Payload, Decoded>,
    | 'consumer'
    | 'concurrency'
    | 'dedupWindowMs'
    | 'leaseMs'
    | 'deadlineMs'
    | 'claimWaitMs'
    | 'observe'
    | 'logger'
    | 'logKeys'
  > {
  /**
   * The caller's identity, to which its keys belong: two customers that send the same key do not see each other's
   * answers. A request for which the function finds none is answered 401. `'none'`: all callers share one key space.
   * Required, because only you know.
   */
  readonly tenant:
    | 'none'
    | ((request: HttpRequest) => string | undefined | Promise<string | undefined>)
  /** Checks and types `payload`: any Standard Schema. A payload that does not match is answered 400. Default: none. */
  readonly schema?: StandardSchemaV1<unknown, Payload> | undefined
  /**
   * Turns the body into a value. If it throws, the request is answered 400. Default: JSON in UTF-8, null for an empty
   * body, and 415 for other content types.
   */
  readonly decode?:
    | ((bytes: Uint8Array, request: HttpRequest) => Decoded | Promise<Decoded>)
    | undefined
  /**
   * Which part of the payload is compared when a key is used again. A different request under a used key is answered
   * 422. Method, path and query are always compared. `'body'` (default) compares the body as canonical JSON (RFC 8785),
   * or its bytes if `decode` is set. A function returns the part to compare: set one if clients change the body with
   * each attempt, for example by a timestamp. `'none'` ignores the body.
   */
  readonly fingerprint?: 'body' | 'none' | ((payload: NoInfer<Payload>) => unknown) | undefined
  /**
   * Names of headers that are stored with the answer and sent again with a replay, besides
   * `DEFAULTS.storedHeaders`. `Set-Cookie` is refused: a cookie is for the client that got it first.
   */
  readonly storedHeaders?: readonly string[] | undefined
  /** Most bytes of a body; more is answered 413. 1–67 108 864. @defaultValue 1 048 576 (1 MiB) */
  readonly maxBodyBytes?: number | undefined
  /**
   * Requests that may wait while `concurrency` handlers run, each with its body in memory. Further requests are
   * answered 503 at once. 0–1 000 000. @defaultValue 1 000
   */
  readonly maxWaiting?: number | undefined
  /**
   * The fate of a running handler whose client closes the connection. `'finish'` (default): the handler runs to
   * its end, and a retry gets its answer. `'abort'`: the handler's `signal` aborts. If the handler then throws, the
   * transaction is rolled back.
   */
  readonly onHangUp?: 'finish' | 'abort' | undefined
  /** @internal As that of `createGuard`. */
  readonly runtime?: Runtime | undefined
}

/** Effects in Postgres: the row of the key, the answer and the business writes commit together. */
export interface InboxHttpOptions<Payload, Tx, Decoded = unknown>
  extends CommonHttpOptions<Payload, Decoded> {
  readonly inbox: Inbox<Tx>
  /** A fast path that answers retries without Postgres. Default: none. */
  readonly leases?: LeaseStore | undefined
  readonly onTakeover?: undefined
}

/** `done`: the effect exists, and this is its answer. `retry`: run the handler. `dead-letter`: a person decides. */
export type HttpTakeover =
  | { readonly kind: 'done'; readonly answer?: Answered }
  | { readonly kind: 'retry' }
  | { readonly kind: 'dead-letter' }

/** Effects outside Postgres: one owner at a time, and stored answers. Not exactly once. */
export interface LeaseHttpOptions<Payload, Decoded = unknown>
  extends CommonHttpOptions<Payload, Decoded> {
  readonly inbox?: undefined
  readonly leases: LeaseStore
  /**
   * The decision when an earlier run of the same key may have had its effect. `'retry'`: run the handler again.
   * `'dead-letter'`: answer 500 until an operator decides. A function looks the effect up and says which. Required.
   */
  readonly onTakeover:
    | 'retry'
    | 'dead-letter'
    | ((
        event: HttpEvent<NoInfer<Payload>>,
        context: HandlerContext<undefined>,
      ) => HttpTakeover | Promise<HttpTakeover>)
}

/** Options of `createHttpGuard`. */
export type HttpGuardOptions<Payload, Tx = undefined, Decoded = unknown> =
  | InboxHttpOptions<Payload, Tx, Decoded>
  | LeaseHttpOptions<Payload, Decoded>

/** Any guard's options, after the types of the payload and the transaction are forgotten. */
export type AnyHttpOptions = CommonHttpOptions<unknown, unknown> & {
  readonly inbox?: Inbox<unknown> | undefined
  readonly leases?: LeaseStore | undefined
  readonly onTakeover?: LeaseHttpOptions<unknown>['onTakeover'] | undefined
}

/** Every default of this package, in bytes where the name says so. Those of the engine are in `@onceward/core`. */
export const DEFAULTS: {
  readonly maxBodyBytes: number
  readonly maxWaiting: number
  readonly onHangUp: 'finish'
  readonly fingerprint: 'body'
  readonly storedHeaders: readonly string[]
} = Object.freeze({
  maxBodyBytes: 1_048_576,
  maxWaiting: 1_000,
  onHangUp: 'finish',
  fingerprint: 'body',
  storedHeaders: Object.freeze([
    ...['content-type', 'content-encoding', 'content-language', 'content-disposition'],
    'content-location',
    ...['location', 'link', 'etag', 'last-modified', 'cache-control', 'vary'],
  ]),
} as const)

export const HTTP_NAMES: KnownNames<AnyHttpOptions> = {
  consumer: true,
  inbox: true,
  leases: true,
  tenant: true,
  schema: true,
  decode: true,
  fingerprint: true,
  storedHeaders: true,
  maxBodyBytes: true,
  maxWaiting: true,
  onHangUp: true,
  onTakeover: true,
  concurrency: true,
  dedupWindowMs: true,
  leaseMs: true,
  deadlineMs: true,
  claimWaitMs: true,
  observe: true,
  logger: true,
  logKeys: true,
  runtime: true,
}

/** Most bytes that `maxBodyBytes` may allow. */
export const LARGEST_BODY = 67_108_864
/** The largest `maxWaiting`. */
export const MOST_WAITING = 1_000_000
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-zA-Z-]+$/

/**
 * Refuses what this package alone can judge. The engine checks the other options.
 *
 * @throws {@link ConfigurationError} with every problem at once.
 */
export function checkOptions<Options extends AnyHttpOptions>(
  caller: string,
  options: Options,
  known: KnownNames<Options>,
): void {
  refuseUnknownNames(caller, options, known)
  const { decode, fingerprint, maxBodyBytes, maxWaiting, onHangUp } = options
  const { schema, storedHeaders, tenant } = options
  const isFingerprint =
    fingerprint === undefined ||
    typeof fingerprint === 'function' ||
    ['body', 'none'].includes(fingerprint)
  refuseProblems([
    ...(tenant === 'none' || typeof tenant === 'function'
      ? []
      : [
          `Expected \`tenant\` to be a function that finds the caller's identity, or 'none', got ${quoted(tenant)}. Without it, callers that send the same key would get each other's answers.`,
        ]),
    ...(isFingerprint
      ? []
      : [
          `Expected \`fingerprint\` to be 'body', 'none' or a function, got ${quoted(fingerprint)}.`,
        ]),
    ...(onHangUp === undefined || ['finish', 'abort'].includes(onHangUp)
      ? []
      : [`Expected \`onHangUp\` to be 'finish' or 'abort', got ${quoted(onHangUp)}.`]),
    // The engine gets functions of this package, which call these.
    ...brokenRules(caller, { decode: aFunction, schema: standardSchema }, { decode, schema }),
    ...rangeProblems('maxBodyBytes', maxBodyBytes, [1, LARGEST_BODY], 'bytes'),
    ...rangeProblems('maxWaiting', maxWaiting, [0, MOST_WAITING], 'requests'),
    ...headerNameProblems('storedHeaders', storedHeaders, {
      refused: ['set-cookie'],
      why: 'a replay would give one client the session of another. Leave it out',
    }),
  ])
}

/** Problems of a list of header names. `refused`: lower-case names that must not be in it, and why. */
export function headerNameProblems(
  option: string,
  names: unknown,
  { refused, why }: { readonly refused: readonly string[]; readonly why: string },
): readonly string[] {
  if (names === undefined) return []
  if (!Array.isArray(names)) {
    return [`Expected \`${option}\` to be a list of names, got ${quoted(names)}.`]
  }
  return names.flatMap((name: unknown) => {
    if (typeof name !== 'string' || !HEADER_NAME.test(name)) {
      return [`Expected \`${option}\` to hold names of headers, got ${quoted(name)}.`]
    }
    return refused.includes(name.toLowerCase())
      ? [`Expected \`${option}\` without \`${name}\`: ${why}.`]
      : []
  })
}

/** Lower-case names of the headers that are stored with an answer. */
export function storedHeadersOf({ storedHeaders = [] }: AnyHttpOptions): ReadonlySet<string> {
  return new Set([...DEFAULTS.storedHeaders, ...storedHeaders.map((name) => name.toLowerCase())])
}
