/** A whole answer, ready to be written by any framework. */
export interface HttpReply {
  readonly status: number
  /** Lower-case names. Only `set-cookie` may be repeated. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** A text is well-formed, and is sent in UTF-8. Node writes a text together with the headers, and bytes after them. */
  readonly body: Body
}

/**
 * Bytes in memory of their own, as `Response` takes them. Compilers before TypeScript 5.7 know no `Uint8Array<ArrayBuffer>`,
 * and this stands in what the package publishes.
 */
export type OwnBytes = ReturnType<typeof Uint8Array.of>

export type Body = string | OwnBytes

/** Statuses whose answers have no body. */
export const isBodyless = (status: number): boolean =>
  status === 204 || status === 205 || status === 304

const encoder = new TextEncoder()

export function toWebResponse({ body, headers, status }: HttpReply): Response {
  const own = new Headers()
  for (const [name, value] of headers) own.append(name, value)
  // A text would get a content type that the answer does not have.
  const bytes = typeof body === 'string' ? encoder.encode(body) : body
  return new Response(isBodyless(status) ? null : bytes, { status, headers: own })
}

/** The headers as Node's servers take them: a repeated one as a list. */
export function toNodeHeaders({ headers }: HttpReply): Record<string, string | string[]> {
  const cookies = headers.filter(([name]) => name === 'set-cookie').map(([, value]) => value)
  return {
    ...Object.fromEntries(headers),
    ...(cookies.length === 0 ? {} : { 'set-cookie': cookies }),
  }
}
