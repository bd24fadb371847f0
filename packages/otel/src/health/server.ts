import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { ConfigurationError } from '@onceward/core'
import {
  healthPortOf,
  quoted,
  rangeProblems,
  refuseProblems,
  refuseUnknownNames,
} from '@onceward/core/adapter'
import { type MeteredConsumptions, namedConsumptions } from '../consumption-samples.ts'
import { CONTENT_TYPE } from './prometheus.ts'
import { metricsText, type ObservedGuard, reportOf, type Sources } from './report.ts'

type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void> | void

/** Options of {@link healthServer}. */
export interface HealthServerOptions {
  /** What `consumeKafka`, `consumeSqs` and `consumeAmqp` return, or the `consumption` of wraps. */
  readonly consumptions: MeteredConsumptions
  /**
   * Guards that must be open and whose stores must be available, those of routes and webhooks too. Guards of the
   * consumptions need not be named: consumptions tell it too.
   */
  readonly guards?: readonly ObservedGuard[] | undefined
  /** @defaultValue 8080; 0 takes any free port */
  readonly port?: number | undefined
  /** The address to listen at. Default: all, because a platform's probes come from outside. */
  readonly host?: string | undefined
  /**
   * Answers `/metrics` instead of the short text of this server:
   * `exporter.getMetricsRequestHandler.bind(exporter)` of a `PrometheusExporter` that starts no server of its own.
   */
  readonly metrics?: Answer | undefined
}

const NAMES = { consumptions: true, guards: true, port: true, host: true, metrics: true } as const
const DEFAULT_PORT = 8_080
/**
 * A probe needs one short request. No client may hold a connection. Node looks at its connections once per interval, by
 * default every 30 s.
 */
const LIMITS = { requestTimeout: 5_000, connectionsCheckingInterval: 2_500 }

/** A listening server. It does not keep the process alive. */
export interface HealthServer extends AsyncDisposable {
  readonly port: number
  /** Stops listening and ends open connections. */
  close(): Promise<void>
}

/**
 * Answers the probes of a platform: `/livez` (200 while no consumer has stopped), `/readyz` (200 while all consumers
 * receive and all stores are available), both with a report in JSON, and `/metrics` in Prometheus' text format. The
 * report has no payload, key or secret. Anybody who reaches the port may read it.
 *
 * @throws {@link ConfigurationError}, also if the port is in use.
 *
 * @example
 * ```ts
 * import { healthServer } from '@onceward/otel/health'
 *
 * await using server = await healthServer({
 *   consumptions: { orders: consumption },
 *   guards: [billing],
 *   port: 8080,
 * })
 * ```
 */
export async function healthServer(options: HealthServerOptions): Promise<HealthServer> {
  refuseUnknownNames('healthServer', options, NAMES)
  const { host, metrics, port = DEFAULT_PORT } = options
  refuseProblems(rangeProblems('port', port, [0, 65_535], 'TCP ports'))
  const server = createServer(LIMITS, routes(sourcesOf(options), metrics))
  server.unref()
  try {
    server.listen({ port, host })
    await once(server, 'listening')
  } catch (error) {
    throw new ConfigurationError(
      `healthServer could not listen at port ${port}: ${String(Reflect.get(Object(error), 'code'))}. Give a free \`port\`, or an address of this machine as \`host\`.`,
      { cause: error },
    )
  }
  // Node reports with this event that it could not accept a connection. Without a listener it would end the process.
  server.on('error', () => undefined)
  const close = async (): Promise<void> => {
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  return { port: (server.address() as AddressInfo).port, close, [Symbol.asyncDispose]: close }
}

/** @throws {@link ConfigurationError} */
function sourcesOf({ consumptions, guards = [], metrics }: HealthServerOptions): Sources {
  const named = namedConsumptions('healthServer', consumptions)
  if (!Array.isArray(guards))
    throw new ConfigurationError(`Expected \`guards\` to be a list, got ${quoted(guards)}.`)
  if (metrics !== undefined && typeof metrics !== 'function')
    throw new ConfigurationError(
      'Expected `metrics` to be a function `(request, response) => …`. Give `exporter.getMetricsRequestHandler.bind(exporter)`.',
    )
  for (const guard of guards) healthPortOf(guard)
  if (named.length + guards.length === 0)
    throw new ConfigurationError(
      'Expected `consumptions` or `guards`, got none: the server would call every process healthy.',
    )
  return { consumptions: named, guards }
}

function routes(sources: Sources, metrics: Answer | undefined): RequestListener {
  const report = (name: 'isLive' | 'isReady'): Answer => {
    return (_, response) => {
      const { isLive, isReady, ...details } = reportOf(sources)
      const isWell = { isLive, isReady }[name]
      answer(response, isWell ? 200 : 503, 'application/json', JSON.stringify(details))
    }
  }
  const paths = new Map<string, Answer>([
    ['/livez', report('isLive')],
    ['/readyz', report('isReady')],
    [
      '/metrics',
      metrics ?? ((_, response) => answer(response, 200, CONTENT_TYPE, metricsText(sources))),
    ],
  ])
  return (request, response) => {
    const [path = ''] = (request.url ?? '').split('?')
    const respond = paths.get(path)
    if (respond === undefined)
      answer(response, 404, 'text/plain', 'Try /livez, /readyz or /metrics.')
    else if (request.method !== 'GET' && request.method !== 'HEAD')
      answer(response, 405, 'text/plain', 'GET or HEAD.')
    else void respondOrFail(respond, request, response)
  }
}

/** If health or metrics cannot be read, the probe fails. The error is not shown: its text may contain secrets. */
async function respondOrFail(respond: Answer, ...[request, response]: Parameters<Answer>) {
  try {
    // An exporter may be asynchronous. An unhandled rejection would end the process.
    await respond(request, response)
  } catch {
    if (response.headersSent && !response.writableEnded) response.destroy()
    else answer(response, 500, 'text/plain', 'The health could not be read.')
  }
}

function answer(response: ServerResponse, status: number, type: string, body: string): void {
  if (response.headersSent) return
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body)
}
