import type { IncomingMessage, ServerResponse } from 'node:http'
import { type HttpGuard, replyTo, runningOf } from './http-guard.ts'
import { fromIncomingMessage, hangUpOf, writeReply } from './incoming-message.ts'

/**
 * The listener of a plain `node:http` server, which answers every request by the guard:
 * `createServer(nodeListener(charge))`. A handler that throws is answered 500.
 *
 * @throws {@link ConfigurationError}
 */
export function nodeListener(
  guard: HttpGuard,
): (request: IncomingMessage, response: ServerResponse) => void {
  const running = runningOf('nodeListener', guard)
  return (request, response) => {
    const parts = { original: request, target: request.url ?? '/', hangUp: hangUpOf(response) }
    void running
      .handle(fromIncomingMessage(request, parts))
      .then((outcome) => writeReply(response, replyTo(outcome)))
      .catch((error: unknown) => {
        running.reportUnsent(error)
        response.destroy()
      })
  }
}
