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
export interface IncomingRequest extends Omit<HttpRequest, 'bytes'> {
  /** Values of a header, one for each time that the request has it. */
  readonly valuesOf: (name: string) => readonly string[]
  /**
   * Reads the whole body, once.
   *
   * @throws {@link BodyTooLargeError} and whatever the connection raises.
   */
  readonly readBytes: (mostBytes: number) => Promise<Uint8Array>
  /** Aborted when the client hangs up. */
  readonly hangUp?: AbortSignal | undefined
}

/** The body is longer than `maxBodyBytes`. The rest of it was not read. */
export class BodyTooLargeError extends Error {}

/** Path and query: what the client asked for, without scheme and host. */
export function targetOf(url: string): string {
  const { pathname, search } = new URL(url)
  return `${pathname}${search}`
}

export function fromWebRequest(request: Request): IncomingRequest {
  const { headers, method, signal, url } = request
  return {
    ...{ headers, method, url, original: request, hangUp: signal },
    // Repeated headers are one here, joined by a comma and a space.
    valuesOf: (name) => {
      const value = headers.get(name)
      return value === null ? [] : [value]
    },
    readBytes: (mostBytes) => readStream(request.body, mostBytes),
  }
}

/** Reads a stream of bytes to its end. */
export async function readStream(
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

function joined(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const [first] = chunks
  if (first !== undefined && chunks.length === 1) return first
  const bytes = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.byteLength
  }
  return bytes
}
