import { ConfigurationError } from '@onceward/core'
import type { Context } from 'hono'
import { type HttpGuard, runningOf } from './http-guard.ts'
import { toWebResponse } from './reply.ts'
import { fromWebRequest, type IncomingRequest, keptBytes, readUnused } from './request.ts'

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
  'Something has read the body before honoRoute, and its bytes are gone. Read it through `c.req` instead of `c.req.raw`.'

function incomingOf(context: Context): IncomingRequest {
  const { bodyCache, raw } = context.req
  const readBytes: IncomingRequest['readBytes'] = async (mostBytes) => {
    if (!raw.bodyUsed) return readUnused(raw, mostBytes)
    const { arrayBuffer, blob, text } = bodyCache as Readonly<Record<string, unknown>>
    // A text with a replacement character may stand for other bytes.
    const kept = (await (arrayBuffer ?? blob ?? text)) as ArrayBuffer | Blob | string | undefined
    if (kept === undefined || (typeof kept === 'string' && kept.includes('\ufffd'))) {
      throw new ConfigurationError(GONE)
    }
    return keptBytes(new Uint8Array(await new Response(kept).arrayBuffer()), mostBytes)
  }
  return fromWebRequest(raw, { original: context, readBytes })
}
