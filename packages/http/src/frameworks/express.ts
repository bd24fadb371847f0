import type { IncomingMessage, ServerResponse } from 'node:http'
import { ConfigurationError } from '@onceward/core'
import { type HttpGuard, runningOf } from '../http-guard.ts'
import { keptBytes } from '../request/request.ts'
import { fromIncomingMessage, writeReply } from './incoming-message.ts'

/** The request of Express, as far as the route reads it. */
export interface ExpressRequest extends IncomingMessage {
  readonly originalUrl?: string
  readonly body?: unknown
  /** The bytes that {@link keepRawBody} kept. */
  readonly rawBody?: unknown
}

/**
 * A route of Express 5: `app.post('/charges', expressRoute(charge))`. It reads the body itself, so that it needs no
 * body parser. Behind one, the parser must keep the bytes: `express.json({ verify: keepRawBody })`, or `express.raw()`.
 * An error that the handler throws goes to the error handler of the application.
 *
 * @throws {@link ConfigurationError}, also to the error handler at a request whose bytes are gone.
 */
export function expressRoute(
  guard: HttpGuard,
): (request: ExpressRequest, response: ServerResponse, next: (error?: unknown) => void) => void {
  const running = runningOf('expressRoute', guard)
  return (request, response, next) => {
    const bytes = bytesOf(request)
    if (bytes === 'gone') {
      next(new ConfigurationError(GONE))
      return
    }
    const target = request.originalUrl ?? request.url ?? '/'
    const readBytes = bytes && ((mostBytes: number) => keptBytes(bytes, mostBytes))
    const isInflated = inflated.has(request)
    const parts = { original: request, response, target, readBytes, isInflated }
    void running
      .handle(fromIncomingMessage(request, parts))
      .then((outcome) => {
        if (outcome.kind === 'threw') throw outcome.error
        if (!writeReply(response, outcome.reply)) running.reportAnswered()
      })
      .catch(next)
  }
}

const GONE =
  'A body parser has read the body before expressRoute, and its bytes are gone. Mount the route before the parser, or keep the bytes: `express.json({ verify: keepRawBody })` with `keepRawBody` of @onceward/http/express. In NestJS, create the application with `{ rawBody: true }`.'

/** Requests whose bytes came from a body parser, which inflates compressed bodies first. */
const inflated = new WeakSet<object>()

/** For the option `verify` of Express's body parsers: keeps the bytes as `rawBody` of the request. */
export function keepRawBody(request: object, _response: unknown, bytes: Uint8Array): void {
  Object.assign(request, { rawBody: bytes })
  inflated.add(request)
}

/** The bytes if something has read the body, undefined if nothing has. */
function bytesOf(request: ExpressRequest): Uint8Array | undefined | 'gone' {
  const { body, rawBody, readableDidRead } = request
  if (rawBody instanceof Uint8Array) return rawBody
  if (body instanceof Uint8Array) return body
  return readableDidRead ? 'gone' : undefined
}
