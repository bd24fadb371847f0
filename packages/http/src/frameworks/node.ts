import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import { type HttpGuard, replyTo, runningOf } from '../http-guard.ts'
import { fromIncomingMessage, writeReply } from './incoming-message.ts'

/**
 * The listener of a plain `node:http` or `node:http2` server, which answers every request by the guard:
 * `createServer(nodeListener(charge))`. A handler that throws is answered 500.
 *
 * @throws {@link ConfigurationError}
 */
export function nodeListener(
  guard: HttpGuard,
): (
  request: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
) => void {
  const running = runningOf('nodeListener', guard)
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    // Express takes a part of the URL off where the listener is mounted.
    const { originalUrl: target = request.url ?? '/' } = request as { originalUrl?: string }
    const parts = { original: request, response, target }
    const outcome = await running.handle(fromIncomingMessage(request, parts))
    if (!writeReply(response, replyTo(outcome))) running.reportAnswered()
  }
  return (request, response) => {
    // The API of both is the same, as far as the guard uses it.
    answer(request as IncomingMessage, response as ServerResponse).catch((error: unknown) => {
      running.reportUnsent(error)
      response.destroy()
    })
  }
}
