import { DeadlineExceededError, InvalidPayloadError, type Settlement } from '@onceward/core'
import { fullReplyOf, replyOf } from './answer.ts'
import { HttpProblem, problemReply } from './problem.ts'
import type { HttpReply } from './reply.ts'

/** How a request ended. A thrown error is for the framework's own error handler, if there is one. */
export type Outcome =
  | { readonly kind: 'reply'; readonly reply: HttpReply }
  | { readonly kind: 'threw'; readonly error: unknown }

/** The answer to a request without an identity. */
export interface Refused {
  readonly kind: 'refused'
  readonly outcome: Outcome
}

const REPLAYED = 'idempotency-replayed'

const TYPE = 'urn:onceward:'

/** The kinds of the problems that the guard itself answers with. */
export type ProblemName =
  | 'key-missing'
  | 'key-repeated'
  | 'key-malformed'
  | 'invalid-body'
  | 'caller-unknown'
  | 'signature-refused'
  | 'event-id-missing'
  | 'method-not-allowed'
  | 'in-flight'
  | 'body-too-large'
  | 'unsupported-media-type'
  | 'key-reused'
  | 'failed'
  | 'outcome-unknown'
  | 'answer-lost'
  | 'unavailable'
  | 'overloaded'
  | 'timed-out'

/** The problems that the guard itself answers with. Clients recognize them by `type`. */
const PROBLEMS: Readonly<Record<ProblemName, readonly [status: number, title: string]>> = {
  'key-missing': [400, 'The Idempotency-Key header is missing'],
  'key-repeated': [400, 'The Idempotency-Key header was sent more than once'],
  'key-malformed': [400, 'The Idempotency-Key header is malformed'],
  'invalid-body': [400, 'The body cannot be used'],
  'event-id-missing': [400, 'The delivery has no event id'],
  'caller-unknown': [401, "The caller's identity is missing or cannot be used"],
  'signature-refused': [401, 'The signature of the delivery is missing, wrong or too old'],
  'method-not-allowed': [405, 'This method takes no Idempotency-Key'],
  'in-flight': [409, 'A request with this Idempotency-Key is in flight'],
  'body-too-large': [413, 'The body is too large'],
  'unsupported-media-type': [415, 'The body has a content type or coding that is not supported'],
  'key-reused': [422, 'This Idempotency-Key was used with another request'],
  failed: [500, 'The request failed'],
  'outcome-unknown': [
    500,
    'The outcome of an earlier request with this Idempotency-Key is unknown',
  ],
  'answer-lost': [500, 'The request is done, but its answer was not stored'],
  unavailable: [503, 'The request cannot be processed now'],
  overloaded: [503, 'Too many requests are waiting'],
  'timed-out': [503, 'The request took too long and was stopped'],
}

export interface ProblemDetails {
  readonly detail?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

export function problemOf(
  name: ProblemName,
  { detail, headers }: ProblemDetails = {},
): HttpProblem {
  const [status, title] = PROBLEMS[name]
  return new HttpProblem({ status, title, type: `${TYPE}${name}`, detail, headers })
}

export const problem = (name: ProblemName, details?: ProblemDetails): Outcome => ({
  kind: 'reply',
  reply: problemReply(problemOf(name, details)),
})

/** The same, and the client must take another connection for its next request. */
export function lastProblem(name: ProblemName, details: ProblemDetails = {}): Outcome {
  const reply = problemReply(problemOf(name, details))
  return {
    kind: 'reply',
    reply: { ...reply, headers: [...reply.headers, ['connection', 'close']] },
  }
}

/**
 * The problem as the answer to this request alone.
 *
 * @throws {@link AnswerError} for headers that cannot be sent.
 */
const thrownProblem = (thrown: HttpProblem): Outcome => ({
  kind: 'reply',
  reply: problemReply(thrown),
})

/**
 * For the framework's own error handler. Express takes some values as a sign to continue with the next route (`'route'`,
 * `null`), so a value that is not an object becomes the cause of an Error.
 */
function threw(thrown: unknown): Outcome {
  const isObject = typeof thrown === 'object' && thrown !== null
  return { kind: 'threw', error: isObject ? thrown : new Error(NO_ERROR, { cause: thrown }) }
}

/** Around the handler: a function such as `tenant` may answer by throwing a problem. */
export function outcomeOfThrown(thrown: unknown): Outcome {
  try {
    return HttpProblem.is(thrown) ? thrownProblem(thrown) : threw(thrown)
  } catch (unsendable) {
    return threw(unsendable)
  }
}

const NO_ERROR = 'A value was thrown that is not an Error. Throw an Error instead.'

/** Seconds, as `Retry-After` wants them: at least one. */
const retryAfter = (ms: number): Readonly<Record<string, string>> => ({
  'retry-after': String(Math.max(1, Math.ceil(ms / 1_000))),
})

/** How long a client should wait when only the process or its connection is at fault, ms. */
const SOON_MS = 1_000

/**
 * The answer to each settlement of the guard: the table of answers.
 *
 * @param nowMs - On the clock of the guard, as `until` is.
 * @param unanswered - To a duplicate of an event that is done and has no stored answer.
 */
export function outcomeOf(
  settlement: Settlement,
  { nowMs, unanswered }: { readonly nowMs: number; readonly unanswered?: Outcome | undefined },
): Outcome {
  switch (settlement.kind) {
    case 'ack':
      return settlement.by === 'conflict'
        ? problem('key-reused', {
            detail: 'Use a new key for a new request, and the same body for a retry.',
          })
        : answered(settlement, unanswered)
    case 'defer':
      return deferred(settlement, nowMs)
    case 'dead-letter':
      return refused(settlement)
    case 'abandon':
      return abandoned(settlement)
  }
}

/** The problem that the handler threw as the answer to this key. */
export function thrownAnswerOf(settlement: Settlement): HttpProblem | undefined {
  if (settlement.kind !== 'defer' || settlement.reason !== 'failed') return undefined
  // Thrown by a function that read the request, so no run could store it with the key.
  if (settlement.cause === 'identify-failed') return undefined
  return HttpProblem.is(settlement.error) && settlement.error.store ? settlement.error : undefined
}

/** An answer of a status alone. */
export const statusOnly = (status: number): Outcome => ({
  kind: 'reply',
  reply: { status, headers: [], body: new Uint8Array() },
})

const ACCEPTED = statusOnly(202)

/** The answer to a delivery whose event runs later: the same one for the first delivery and for every duplicate. */
export function acceptedOutcomeOf(settlement: Settlement, nowMs: number): Outcome {
  if (settlement.kind === 'ack' && settlement.by !== 'conflict') return ACCEPTED
  if (settlement.kind === 'defer' && settlement.cause === 'not-stored') {
    return problem('body-too-large', { detail: 'The delivery cannot be stored.' })
  }
  return outcomeOf(settlement, { nowMs })
}

type Of<Kind extends Settlement['kind']> = Extract<Settlement, { kind: Kind }>

function answered({ by, result }: Of<'ack'>, unanswered: Outcome | undefined): Outcome {
  // The client that waited gets the whole answer, retries get the stored part of it.
  const reply = (by === 'processed' ? fullReplyOf(result) : undefined) ?? replyOf(result)
  if (reply === undefined) return unanswered ?? problem('answer-lost')
  const replayed = [...reply.headers, [REPLAYED, 'true'] as const]
  return { kind: 'reply', reply: by === 'duplicate' ? { ...reply, headers: replayed } : reply }
}

function deferred({ cause, error, reason, until }: Of<'defer'>, nowMs: number): Outcome {
  const headers = retryAfter(until - nowMs)
  if (reason === 'store-down' || cause === 'deferred-by-handler') {
    return problem('unavailable', { headers })
  }
  if (reason !== 'failed') return problem('in-flight', { headers })
  if (HttpProblem.is(error)) return thrownProblem(error)
  if (error instanceof DeadlineExceededError) {
    return problem('timed-out', { headers: retryAfter(SOON_MS) })
  }
  return threw(error ?? new Error(`The request was deferred: ${cause}.`))
}

function refused({ error, reason }: Of<'dead-letter'>): Outcome {
  switch (reason) {
    case 'invalid-payload': {
      const thrown = error instanceof InvalidPayloadError ? error.cause : error
      if (HttpProblem.is(thrown)) return thrownProblem(thrown)
      return problem('invalid-body', { detail: shownToClients(error) })
    }
    case 'missing-event-key':
      return problem('key-missing')
    case 'fingerprint-mismatch':
      return problem('key-reused')
    case 'takeover':
      return problem('outcome-unknown')
    case 'fatal':
    case 'attempts-spent':
    case 'no-verdict':
    case 'unknown-type':
    // Never of a settlement.
    case 'late-statement':
      return problem('failed')
  }
}

/** The guard's own words about a body. Errors of the user's functions are not shown to clients. */
function shownToClients(error: unknown): string | undefined {
  if (!(error instanceof InvalidPayloadError)) return undefined
  const { cause, message } = error
  return cause === undefined || cause instanceof InvalidPayloadError ? message : undefined
}

function abandoned({ reason }: Of<'abandon'>): Outcome {
  const headers = retryAfter(SOON_MS)
  switch (reason) {
    case 'deadline':
      return problem('timed-out', { headers })
    case 'closing':
      // The connection belongs to a process that ends. A retry should take another.
      return lastProblem('unavailable', { headers })
    case 'lease-lost':
    case 'commit-unknown':
      return problem('unavailable', { headers })
  }
}
