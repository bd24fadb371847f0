import { ConfigurationError } from '@onceward/core'
import type { MaybeAsync } from '@onceward/core/edge'

/** A request as handlers and resolvers see it, the same behind every framework. */
export interface HttpRequest {
  readonly method: string
  /** Absolute. Behind a proxy, scheme and host are those of the proxy's own request. */
  readonly url: string
  readonly headers: Headers
  /** The body as it was received. */
  readonly bytes: Uint8Array
  /**
   * The framework's own: Express's `req`, Fastify's `request`, Hono's context, the `IncomingMessage` of node:http, or
   * the `Request` that `fetch` got. What an authentication middleware left is there.
   */
  readonly original: unknown
}

/** A request whose body is not read yet, as a framework hands it over. */
export interface IncomingRequest {
  readonly method: string
  /** Path and query, as a WHATWG URL spells them: what the client asked for, without scheme and host. */
  readonly target: string
  /** Values of a header, one for each time that the request has it. */
  readonly valuesOf: (name: string) => readonly string[]
  /**
   * Reads the whole body, once.
   *
   * @throws {@link BodyTooLargeError} and whatever the connection raises.
   */
  readonly readBytes: (mostBytes: number) => MaybeAsync<Uint8Array>
  /** The bytes are the body itself, although the header `content-encoding` may say that it was sent compressed. */
  readonly isInflated?: boolean | undefined
  /** The request with its body, as handlers see it. */
  readonly withBytes: (bytes: Uint8Array) => HttpRequest
  /** Whether the client has hung up. */
  readonly isGone: () => boolean
  /** Whether the client broke the request off in a way that the body, once it is read, does not show. */
  readonly mayBeCutOff: () => boolean
  /** Aborted when the client hangs up. Made only where somebody listens, because most requests need none. */
  readonly hangUp: () => AbortSignal
}

/** The value of a header, as `Headers` gives it. Undefined if the request has none. */
export function headerOf(
  { valuesOf }: Pick<IncomingRequest, 'valuesOf'>,
  name: string,
): string | undefined {
  const values = valuesOf(name)
  return values.length < 2 ? values[0] : values.join(', ')
}

export const HUNG_UP = 'the client hung up'

/**
 * The body that was read, if it is the whole one. Under HTTP/2 a body that the client broke off ends as a whole one does,
 * so it must have its declared length.
 */
export function completeBody(incoming: IncomingRequest, bytes: Uint8Array): Uint8Array {
  if (!incoming.mayBeCutOff()) return bytes
  const declared = headerOf(incoming, 'content-length') ?? Number.NaN
  if (Number(declared) !== bytes.byteLength) throw new Error(HUNG_UP)
  return bytes
}

/** The body is longer than `maxBodyBytes`. The rest of it was not read. */
export class BodyTooLargeError extends Error {}

/** Bytes that were kept by what has read the body. */
export function keptBytes(bytes: Uint8Array, mostBytes: number): Uint8Array {
  if (bytes.byteLength > mostBytes) throw new BodyTooLargeError()
  return bytes
}

/** Path and query of an absolute URL. */
export function targetOf(url: string): string {
  const { pathname, search } = new URL(url)
  return `${pathname}${search}`
}

/** What differs between frameworks on Web Requests. */
export interface WebRequestParts {
  readonly original?: unknown
  readonly readBytes?: IncomingRequest['readBytes'] | undefined
}

export function fromWebRequest(
  request: Request,
  { original = request, readBytes }: WebRequestParts = {},
): IncomingRequest {
  const { headers, method, signal, url } = request
  // Cloudflare's requests have no signal unless a flag asks for it.
  const isGone = (): boolean => (signal as AbortSignal | undefined)?.aborted === true
  return {
    method,
    target: targetOf(url),
    // Repeated headers are one here, joined by a comma and a space.
    valuesOf: (name) => {
      const value = headers.get(name)
      return value === null ? [] : [value]
    },
    readBytes: readBytes ?? ((mostBytes) => readUnused(request, mostBytes)),
    withBytes: (bytes) => ({ method, url, headers, bytes, original }),
    isGone,
    // The server below may speak HTTP/2.
    mayBeCutOff: isGone,
    hangUp: () => signal,
  }
}

export const READ_BEFORE =
  'Something has read the body of the request before the guard, and its bytes are gone. Call the guard first. In NestJS, create the application with `{ rawBody: true }` and use expressRoute or fastifyRoute.'

/**
 * Reads the body of a Web Request whose body nothing has read. If the declared length is too large, nothing is read.
 *
 * @throws {@link ConfigurationError} | {@link BodyTooLargeError}, and whatever the connection raises.
 */
export async function readUnused(request: Request, mostBytes: number): Promise<Uint8Array> {
  // Before a look at the body, which some servers begin to read then.
  if (Number(request.headers.get('content-length') ?? 0) > mostBytes) throw new BodyTooLargeError()
  const { body, bodyUsed } = request
  if (bodyUsed || body?.locked === true) throw new ConfigurationError(READ_BEFORE)
  return readStream(body, mostBytes)
}

/** Reads a stream of bytes to its end. */
async function readStream(
  stream: ReadableStream<Uint8Array> | null,
  mostBytes: number,
): Promise<Uint8Array> {
  if (stream === null) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = stream.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return joined(chunks, length)
    length += value.byteLength
    if (length > mostBytes) {
      await reader.cancel().catch(() => undefined)
      throw new BodyTooLargeError()
    }
    chunks.push(value)
  }
}

/** The pieces of a body as one. A single piece is not copied. */
export function joined(chunks: readonly Uint8Array[], length: number): Uint8Array {
  if (chunks.length === 1) return chunks[0] as Uint8Array
  const bytes = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.byteLength
  }
  return bytes
}
