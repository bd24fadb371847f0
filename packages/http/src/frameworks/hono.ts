import { ConfigurationError } from '@onceward/core'
import type { Context } from 'hono'
import { toWebResponse } from '../answer/reply.ts'
import { type HttpGuard, runningOf } from '../http-guard.ts'
import { fromWebRequest, type IncomingRequest, keptBytes, readUnused } from '../request/request.ts'

/**
 * A route of Hono 4: `app.post('/charges', honoRoute(charge))`. `original` of the request is Hono's context. A
 * middleware may have read the body through `c.req`, which keeps it. An error that the handler throws goes to
 * `app.onError`. `app.mount` hides its prefix from the guard: use `app.route`, or a guard for each prefix.
 *
 * @throws {@link ConfigurationError}, also to `app.onError` at a request whose bytes are gone.
 */
export function honoRoute(guard: HttpGuard): (context: Context) => Promise<Response> {
  const running = runningOf('honoRoute', guard)
  return async (context) => {
    const outcome = await running.handle(incomingOf(context))
    if (outcome.kind === 'threw') throw outcome.error
    return toWebResponse(outcome.reply)
  }
}

const GONE =
  'Something has read the body before honoRoute, and its bytes are gone. Read it by `c.req.arrayBuffer()` first, and not only by `c.req.raw`, `c.req.formData()` or `c.req.json()` of Hono before 4.8.4.'
const REPLACED =
  'A middleware has read the body as a text, in which a replacement character (U+FFFD) may stand for other bytes. Read it by `c.req.arrayBuffer()` first.'

function incomingOf(context: Context): IncomingRequest {
  const { bodyCache, raw } = context.req
  const readBytes: IncomingRequest['readBytes'] = async (mostBytes) => {
    if (!raw.bodyUsed) return readUnused(raw, mostBytes)
    const { arrayBuffer, blob, text } = bodyCache as Readonly<Record<string, unknown>>
    const kept = (await (arrayBuffer ?? blob ?? text)) as ArrayBuffer | Blob | string | undefined
    if (kept === undefined) throw new ConfigurationError(GONE)
    const bytes = new Uint8Array(await new Response(kept).arrayBuffer())
    if (typeof kept === 'string' && kept.includes('\ufffd') && !isDeclared(raw, bytes)) {
      throw new ConfigurationError(REPLACED)
    }
    return keptBytes(bytes, mostBytes)
  }
  return fromWebRequest(raw, { original: context, readBytes })
}

/**
 * Whether the text has as many bytes as the client declared. Each replacement of other bytes changes the length, except for
 * three bytes of a character of four.
 */
const isDeclared = ({ headers }: Request, { byteLength }: Uint8Array): boolean =>
  Number(headers.get('content-length') ?? Number.NaN) === byteLength
