import type { IncomingMessage, ServerResponse } from 'node:http'
import { ConfigurationError } from '@onceward/core'
import { type HttpReply, isBodyless, toNodeHeaders } from './reply.ts'
import { BodyTooLargeError, type IncomingRequest } from './request.ts'

/** What differs between frameworks on top of node:http. */
export interface NodeRequestParts {
  readonly original: unknown
  /** Path and query as the client sent them, without what a router took off. */
  readonly target: string
  /** The body if something has read it before. */
  readonly bytes?: Uint8Array | undefined
  readonly hangUp?: AbortSignal | undefined
}

/** A request of node:http as the guard takes it. */
export function fromIncomingMessage(
  message: IncomingMessage,
  { bytes, hangUp, original, target }: NodeRequestParts,
): IncomingRequest {
  const headers = toHeaders(message)
  return {
    ...{ method: message.method ?? 'GET', headers, original, hangUp },
    url: urlOf(message, target),
    valuesOf: (name) => pairsOf(message).flatMap(([own, value]) => (own === name ? [value] : [])),
    readBytes: async (mostBytes) => {
      if (bytes === undefined) return readMessage(message, mostBytes)
      if (bytes.byteLength > mostBytes) throw new BodyTooLargeError()
      return bytes
    },
  }
}

function toHeaders(message: IncomingMessage): Headers {
  const headers = new Headers()
  for (const [name, value] of pairsOf(message)) headers.append(name, value)
  return headers
}

/** Headers as the client sent them. A request of HTTP/2 has them only in this form. */
function pairsOf({ rawHeaders }: IncomingMessage): readonly (readonly [string, string])[] {
  const pairs: (readonly [string, string])[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase()
    // Pseudo-headers of HTTP/2 are no headers.
    if (!name.startsWith(':')) pairs.push([name, rawHeaders[at + 1] as string])
  }
  return pairs
}

/** The host may be anything that the client sent. It is no part of what the guard compares. */
function urlOf({ headers, socket }: IncomingMessage, target: string): string {
  const scheme = 'encrypted' in socket ? 'https' : 'http'
  const path = target.startsWith('/') ? target : `/${target}`
  const asked = headers.host ?? headers[':authority'] ?? 'localhost'
  for (const host of [asked, 'localhost']) {
    const url = `${scheme}://${host}${path}`
    if (URL.canParse(url)) return url
  }
  return `${scheme}://localhost/`
}

const HUNG_UP = 'the client hung up'
const READ_BEFORE =
  'Something has read the body of the request before the guard, and its bytes are gone. Call the guard first.'

/** Reads the body. A body that is too large is left on the connection, and not kept. */
function readMessage(message: IncomingMessage, mostBytes: number): Promise<Uint8Array> {
  // After the last event of a stream no other comes, and a middleware may have waited that long.
  if (message.readableEnded) return Promise.reject(new ConfigurationError(READ_BEFORE))
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
  const onEnd = (): void => end(() => resolve(Buffer.concat(chunks)))
  const onError = (error: Error): void => end(() => reject(error))
  const onClose = (): void => end(() => reject(new Error(HUNG_UP)))
  const end = (settle: () => void): void => {
    message.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose)
    // Bytes that nobody reads would keep the connection from ending.
    message.resume()
    settle()
  }
  message.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose)
  return promise
}

/** Aborted when the client hangs up before it has its answer. */
export function hangUpOf(response: ServerResponse): AbortSignal {
  const controller = new AbortController()
  const onClose = (): void => {
    if (!response.writableEnded) controller.abort(new Error(HUNG_UP))
  }
  if (response.closed) onClose()
  else response.once('close', onClose)
  return controller.signal
}

/**
 * Writes the answer, unless somebody else has answered or the client is gone.
 *
 * @throws what a middleware throws that has put its own functions into the response.
 */
export function writeReply(response: ServerResponse, reply: HttpReply): void {
  if (response.headersSent || response.destroyed) return
  const { body, status } = reply
  const length = isBodyless(status) ? {} : { 'content-length': body.byteLength }
  response.statusCode = status
  for (const [name, value] of Object.entries({ ...toNodeHeaders(reply), ...length })) {
    response.setHeader(name, value)
  }
  response.end(isBodyless(status) ? undefined : body)
}
