import type { SqsClient } from '../client.ts'

/** The timeouts of the request handlers of `@smithy`, milliseconds. 0 means none. */
interface Timeouts {
  readonly socketTimeout?: unknown
  /** A default that the service brings. */
  readonly defaultSocketTimeout?: unknown
  readonly requestTimeout?: unknown
  /** Only the handler for `node:http` has it. Without it that handler only warns of its `requestTimeout`. */
  readonly throwOnRequestTimeout?: unknown
}

/** Time for an answer to arrive after a long poll has ended, milliseconds. */
const SLACK_MS = 1_000

/**
 * Longest long poll that the request handler of the client waits for, in whole seconds, as milliseconds. Undefined if
 * the handler has no timeout or does not tell; it knows its own settings from its first call on.
 */
export function longestPollMs(client: SqsClient): number | undefined {
  const { defaultSocketTimeout, socketTimeout, ...request } = timeoutsOf(client)
  const isEnd = !('throwOnRequestTimeout' in request) || request.throwOnRequestTimeout === true
  const ofRequest = isEnd ? request.requestTimeout : undefined
  const limits = [socketTimeout ?? defaultSocketTimeout, ofRequest].filter(isLimit)
  if (limits.length === 0) return undefined
  return Math.max(0, Math.floor((Math.min(...limits) - SLACK_MS) / 1_000)) * 1_000
}

const isLimit = (ms: unknown): ms is number => Number.isFinite(ms) && Number(ms) > 0

/** A custom handler may lack anything. */
function timeoutsOf(client: SqsClient & { readonly config?: unknown }): Timeouts {
  try {
    const { requestHandler } = client.config as { readonly requestHandler: unknown }
    const { httpHandlerConfigs } = requestHandler as { httpHandlerConfigs(): Timeouts }
    return { ...httpHandlerConfigs.call(requestHandler) }
  } catch {
    return {}
  }
}
