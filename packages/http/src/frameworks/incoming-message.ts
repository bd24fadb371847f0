import type { IncomingMessage, ServerResponse } from 'node:http'
import { ConfigurationError } from '@onceward/core'
import { type HttpReply, isBodyless } from '../answer/reply.ts'
import {
  BodyTooLargeError,
  type HttpRequest,
  HUNG_UP,
  type IncomingRequest,
  joined,
  READ_BEFORE,
  targetOf,
} from '../request/request.ts'

/** What differs between frameworks on top of node:http. */
export interface NodeRequestParts {
  readonly original: unknown
  readonly response: ServerResponse
  /** Path and query as the client sent them, without what a router took off. */
  readonly target: string
  /** Reads the body, where something else has read the connection. */
  readonly readBytes?: IncomingRequest['readBytes'] | undefined
  readonly isInflated?: boolean | undefined
}

/** A request of node:http as the guard takes it. */
export function fromIncomingMessage(
  message: IncomingMessage,
  { isInflated, original, readBytes, response, target }: NodeRequestParts,
): IncomingRequest {
  const { method = 'GET' } = message
  const path = pathOf(target)
  // Under HTTP/2, only `aborted` shows it.
  const isGone = (): boolean =>
    message.readableAborted || message.aborted || (response.closed && !response.writableEnded)
  return {
    method,
    target: targetOf(`http://localhost${path}`),
    valuesOf: (name) => valuesOf(message, name),
    readBytes: readBytes ?? ((mostBytes) => readMessage(message, mostBytes)),
    isInflated,
    withBytes: (bytes) => lazyRequest({ method, bytes, original }, message, path),
    isGone,
    // Under HTTP/1, Node makes an error of it.
    mayBeCutOff: () => message.httpVersionMajor > 1 && message.aborted,
    hangUp: () => hangUpOf(response, isGone()),
  }
}

/** A proxy may send the whole URL as the target. It asks for the same (RFC 9112 §3.2.2). */
function pathOf(target: string): string {
  if (target.startsWith('/')) return target
  return /^https?:\/\//i.test(target) && URL.canParse(target) ? targetOf(target) : `/${target}`
}

/**
 * Names and values take turns. A request of HTTP/2 has its headers only in this form, and one that an adapter of a
 * serverless platform made only in the other, where a length that the adapter has counted may be a number.
 */
function rawHeadersOf({ headers, rawHeaders }: IncomingMessage): readonly string[] {
  if (rawHeaders.length > 0) return rawHeaders
  return Object.entries(headers).flatMap(([name, value = []]) =>
    [value].flat().flatMap((each) => [name, String(each)]),
  )
}

function valuesOf(message: IncomingMessage, name: string): readonly string[] {
  const rawHeaders = rawHeadersOf(message)
  const values: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] ?? ''
    if (given.length === name.length && given.toLowerCase() === name) {
      values.push(rawHeaders[at + 1] ?? '')
    }
  }
  return values
}

/** Most handlers read neither the URL nor the headers, so they are made for the handler that does. */
function lazyRequest(
  parts: Pick<HttpRequest, 'method' | 'bytes' | 'original'>,
  message: IncomingMessage,
  path: string,
): HttpRequest {
  let url: string | undefined
  let headers: Headers | undefined
  return {
    ...parts,
    get url() {
      url ??= urlOf(message, path)
      return url
    },
    get headers() {
      headers ??= toHeaders(message)
      return headers
    },
  }
}

function toHeaders(message: IncomingMessage): Headers {
  const rawHeaders = rawHeadersOf(message)
  const headers = new Headers()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    // Pseudo-headers of HTTP/2 are not headers.
    if (!name.startsWith(':')) headers.append(name, rawHeaders[at + 1] ?? '')
  }
  return headers
}

/** Everything else would be read as another part of the URL, such as its path. */
const HOST = /^[^\s/?#@\\]+$/

/** The host may be anything that the client sent. The guard does not compare it. */
function urlOf({ headers, socket }: IncomingMessage, path: string): string {
  const scheme = 'encrypted' in socket ? 'https' : 'http'
  const asked = String(headers.host ?? headers[':authority'] ?? 'localhost')
  const url = `${scheme}://${asked}${path}`
  return HOST.test(asked) && URL.canParse(url) ? url : `${scheme}://localhost${path}`
}

/** Reads the body. A body that is too large is left on the connection, and not kept. */
function readMessage(message: IncomingMessage, mostBytes: number): Promise<Uint8Array> {
  if (message.readableDidRead || message.readableEncoding !== null) {
    return Promise.reject(new ConfigurationError(READ_BEFORE))
  }
  // After the last event of a stream no other comes, and a middleware may have waited that long. There were no bytes.
  if (message.readableEnded) return Promise.resolve(new Uint8Array())
  if (message.destroyed) return Promise.reject(new Error(HUNG_UP))
  if (Number(message.headers['content-length'] ?? 0) > mostBytes) {
    message.resume()
    return Promise.reject(new BodyTooLargeError())
  }
  const { promise, reject, resolve } = Promise.withResolvers<Uint8Array>()
  const chunks: Uint8Array[] = []
  let length = 0
  const onData = (chunk: Uint8Array): void => {
    length += chunk.byteLength
    if (length <= mostBytes) chunks.push(chunk)
    else end(() => reject(new BodyTooLargeError()))
  }
  const onEnd = (): void => end(() => resolve(joined(chunks, length)))
  const onError = (error: Error): void => end(() => reject(error))
  const onClose = (): void => end(() => reject(new Error(HUNG_UP)))
  const end = (settle: () => void): void => {
    message.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose)
    // Unread bytes would keep the connection from ending.
    message.resume()
    settle()
  }
  message.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose)
  // A middleware may have paused it.
  message.resume()
  return promise
}

/** Aborted when the client hangs up before it has its answer. */
function hangUpOf(response: ServerResponse, isGone: boolean): AbortSignal {
  const controller = new AbortController()
  const onClose = (): void => {
    if (!response.writableEnded) controller.abort(new Error(HUNG_UP))
  }
  if (isGone) onClose()
  else response.once('close', onClose)
  return controller.signal
}

/**
 * Writes the answer, unless the client is gone. False if something else has answered.
 *
 * @throws what a middleware throws that has put its own functions into the response.
 */
export function writeReply(response: ServerResponse, reply: HttpReply): boolean {
  if (response.headersSent) return false
  if (response.destroyed) return true
  const { body, headers, status } = reply
  response.statusCode = status
  for (const [name, value] of headers) {
    if (name === 'set-cookie') response.appendHeader(name, value)
    else response.setHeader(name, value)
  }
  if (isBodyless(status)) {
    response.end()
    return true
  }
  response.setHeader('content-length', Buffer.byteLength(body))
  if (headers.some(([, value]) => LATIN_1.test(value))) {
    // With its only piece, `end` writes headers in UTF-8 (beside a text) or damages them (`content-disposition`).
    response.write(Buffer.from(body))
    response.end()
  } else {
    response.end(body)
  }
  return true
}

const LATIN_1 = /[\x80-\xff]/
