/** A whole answer, ready to be written by any framework. */
export interface HttpReply {
  readonly status: number
  /** Lower-case names. Only `set-cookie` may be repeated. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array<ArrayBuffer>
}

/** Statuses whose answers have no body. */
export const isBodyless = (status: number): boolean =>
  status === 204 || status === 205 || status === 304

export function toWebResponse({ body, headers, status }: HttpReply): Response {
  const own = new Headers()
  for (const [name, value] of headers) own.append(name, value)
  return new Response(isBodyless(status) ? null : body, { status, headers: own })
}

/** The headers as Node's servers take them: a repeated one as a list. */
export function toNodeHeaders({ headers }: HttpReply): Record<string, string | string[]> {
  const cookies = headers.filter(([name]) => name === 'set-cookie').map(([, value]) => value)
  return {
    ...Object.fromEntries(headers),
    ...(cookies.length === 0 ? {} : { 'set-cookie': cookies }),
  }
}

const encoder = new TextEncoder()

/** The bytes of a text. TextEncoder never shares its memory. */
export const toBytes = (text: string): Uint8Array<ArrayBuffer> => encoder.encode(text)
