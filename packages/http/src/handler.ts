import type { GuardEvent, Handler, HandlerContext, Json, Logger, Takeover } from '@onceward/core'
import { unrunError } from '@onceward/core/adapter'
import { describeError, isPromise, isThenable, type MaybeAsync } from '@onceward/core/edge'
import { type CheckedAnswer, checkAnswer, checkProblem, toResult } from './answer/answer.ts'
import { problemOf } from './answer/outcome.ts'
import { HttpProblem } from './answer/problem.ts'
import {
  type AnyHttpOptions,
  type HttpEvent,
  type HttpHandler,
  type HttpTakeover,
  storedHeadersOf,
} from './options.ts'
import type { DecodedRequest } from './request/content.ts'
import { exchangeOf } from './request/stored-request.ts'

type Event = GuardEvent<unknown>
type Call = (event: HttpEvent<unknown>, context: HandlerContext<unknown>) => unknown

/**
 * How the engine calls a handler whose caller has its answer already. Its return value is ignored.
 *
 * @throws {@link RetryableError} for an effect that was returned and not run: its event would count as done.
 */
export function createLaterHandler(
  handler: HttpHandler<unknown, unknown>,
  isSplit: boolean,
): Handler<unknown, unknown> {
  return async (event, context) => {
    const payload = isSplit ? event.payload : (event.payload as DecodedRequest).payload
    const failure = unrunError(await (handler as Call)(toHttpEvent(event, payload), context))
    if (failure !== undefined) throw failure
  }
}

/** How the engine calls a route's handler: its answer is checked, and stored as the event's result. */
export interface RouteHandler {
  readonly handler: Handler<unknown, unknown>
  readonly takeOver: (event: Event, context: HandlerContext<undefined>) => Promise<Takeover>
  /** The problem that a handler threw as its answer. */
  readonly toDecided: (thrown: HttpProblem) => CheckedAnswer
}

export function createRouteHandler(
  options: AnyHttpOptions,
  handler: HttpHandler<unknown, unknown>,
  logger: () => Logger,
): RouteHandler {
  const storedHeaders = storedHeadersOf(options)
  const hasInbox = options.inbox !== undefined

  const keep = (event: Event, answer: unknown): MaybeAsync<Json> => {
    const failed = (error: unknown): Json => storeLost(event, error)
    try {
      const checking = checkAnswer(answer, storedHeaders)
      return isPromise(checking) ? checking.then(toResult).catch(failed) : toResult(checking)
    } catch (error) {
      return failed(error)
    }
  }

  const storeLost = (event: Event, error: unknown): Json => {
    // Without an inbox the effect has happened outside of the database: a retry must not repeat it.
    if (hasInbox) throw error
    logger().error(
      { eventId: event.idempotencyKey, err: describeError(error) },
      'an answer cannot be stored and retries get status 500: fix the handler',
    )
    return toResult(checkProblem(problemOf('answer-lost'), storedHeaders))
  }

  const threw = (event: Event, thrown: unknown): Json => {
    // Without a transaction there is nothing to roll back.
    if (hasInbox || !HttpProblem.is(thrown) || !thrown.store) throw thrown
    try {
      return toResult(checkProblem(thrown, storedHeaders))
    } catch (error) {
      return storeLost(event, error)
    }
  }

  const answer = (event: Event, context: HandlerContext<unknown>): MaybeAsync<Json> => {
    const { decided } = exchangeOf(event)
    if (decided !== undefined) return toResult(decided)
    let answering: unknown
    try {
      answering = (handler as Call)(toHttpEvent(event), context)
    } catch (thrown) {
      return threw(event, thrown)
    }
    if (!isThenable(answering)) return keep(event, answering)
    return Promise.resolve(answering).then(
      (value) => keep(event, value),
      (thrown) => threw(event, thrown),
    )
  }

  return {
    handler: answer,
    takeOver: async (event, context) => {
      const { onTakeover } = options
      if (typeof onTakeover !== 'function') return { kind: onTakeover ?? 'dead-letter' }
      const decision: unknown = await onTakeover(toHttpEvent(event), context)
      const { answer, kind } = Object(decision) as Partial<Extract<HttpTakeover, { kind: 'done' }>>
      // The engine judges every other decision.
      if (kind !== 'done') return decision as Takeover
      return { kind, result: await keep(event, answer) }
    },
    toDecided: (thrown) => checkProblem(thrown, storedHeaders),
  }
}

function toHttpEvent(
  event: Event,
  payload: unknown = (event.payload as DecodedRequest).payload,
): HttpEvent<unknown> {
  const { idempotencyKey, key, tenant } = event
  return { payload, request: exchangeOf(event).request, key, tenant, idempotencyKey }
}
