import type { Json } from '@onceward/core'
import { type KnownNames, refuseUnknownNames } from '@onceward/core/adapter'
import { AnswerError } from './answer-error.ts'
import { listed } from './headers.ts'
import type { HttpReply } from './reply.ts'

export interface HttpProblemOptions {
  /** 400–599. */
  readonly status: number
  /** What went wrong, the same for every such problem. */
  readonly title: string
  /** A URI that names the kind of problem. Default: `about:blank`, for which the status says it all. */
  readonly type?: string | undefined
  /** What went wrong in this request. Clients see it. */
  readonly detail?: string | undefined
  readonly instance?: string | undefined
  /** Further members of the problem. */
  readonly extensions?: Readonly<Record<string, Json>> | undefined
  /** Headers of the answer, such as `www-authenticate`. Stored only if they are on the list of stored headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /**
   * True: the problem is the answer to this key, and retries get it again. The handler's writes are rolled back.
   * Default: the key is free again, and a retry runs the handler.
   */
  readonly store?: boolean | undefined
  readonly cause?: unknown
}

const NAMES: KnownNames<HttpProblemOptions> = {
  ...{ status: true, title: true, type: true, detail: true, instance: true, extensions: true },
  ...{ headers: true, store: true, cause: true },
}

const BRAND = Symbol.for('onceward.http-problem')

/**
 * Thrown by a handler to answer with a problem (RFC 9457). What the handler wrote in its transaction is rolled back. To
 * keep the writes, return an answer with the status instead.
 */
export class HttpProblem extends Error {
  static override readonly name: string = 'HttpProblem'
  readonly status: number
  readonly title: string
  readonly type: string
  readonly detail: string | undefined
  readonly instance: string | undefined
  readonly extensions: Readonly<Record<string, Json>>
  readonly headers: Readonly<Record<string, string>>
  readonly store: boolean

  /**
   * @throws RangeError for a status that is not an error.
   * @throws {@link ConfigurationError} for unknown names: a misspelt `store` would let each retry run the handler again.
   */
  constructor(options: HttpProblemOptions) {
    refuseUnknownNames('HttpProblem', options, NAMES)
    const { cause, detail, extensions = {}, headers = {}, instance, status, title } = options
    super(
      detail === undefined ? title : `${title}: ${detail}`,
      cause === undefined ? {} : { cause },
    )
    if (!Number.isInteger(status) || status < 400 || status > 599) {
      throw new RangeError(
        `Expected \`status\` of an HttpProblem to be an integer from 400 to 599, got ${String(status)}. Return an answer for other statuses.`,
      )
    }
    // Not enumerable, so that a copy, `new HttpProblem({ ...problem, status: 409 })`, has only names of options.
    const name = { value: 'HttpProblem', configurable: true, writable: true }
    Object.defineProperty(this, 'name', name)
    Object.defineProperty(this, BRAND, { value: true })
    this.status = status
    this.title = String(title)
    this.type = options.type ?? 'about:blank'
    this.detail = detail
    this.instance = instance
    this.extensions = extensions
    this.headers = headers
    this.store = options.store === true
  }

  /** Whether `value` is an HttpProblem, from this copy of the package or another. */
  static is(value: unknown): value is HttpProblem {
    return BRAND in Object(value)
  }
}

export const PROBLEM_TYPE = 'application/problem+json'

/**
 * The members of the problem as RFC 9457 spells them. Its own win over extensions of the same name.
 *
 * @throws {@link AnswerError} for extensions that have no JSON.
 */
export function problemText(problem: HttpProblem): string {
  const { detail, extensions, instance, status, title, type } = problem
  const own = { type, title, status, detail, instance }
  try {
    return JSON.stringify({ ...own, ...extensions, ...own })
  } catch (cause) {
    throw new AnswerError(
      'The `extensions` of the problem are not JSON: they refer to themselves, nest too deep or have a BigInt.',
      { cause },
    )
  }
}

/**
 * The answer of a problem that is not stored.
 *
 * @throws {@link AnswerError} for headers that cannot be sent, and for extensions that have no JSON.
 */
export function problemReply(problem: HttpProblem): HttpReply {
  // An answer that is not stored must not be stored by anybody else.
  const headers = { 'cache-control': 'no-store', ...lowerCased(problem.headers) }
  return {
    status: problem.status,
    headers: listed({ ...headers, 'content-type': PROBLEM_TYPE }),
    body: problemText(problem),
  }
}

/** A name must not stand beside itself in another case: the headers would be joined. */
export const lowerCased = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
