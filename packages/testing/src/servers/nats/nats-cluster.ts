import { retryTakenPort } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import type { Server } from '../run/server.ts'
import { type NatsServerConnection, startNode } from './nats.ts'

/** NATS servers that keep streams together, each of which can be killed and restarted. */
export interface NatsCluster extends AsyncDisposable {
  /** All of them, as `servers` of `connect()`. */
  readonly urls: readonly string[]
  /** The server named `n1` is the first. */
  readonly nodes: readonly Server<NatsServerConnection>[]
}

const COUNT = 3

/**
 * Three NATS servers with JetStream; resolves when all of them answer. Streams are replicated if they ask for it
 * (`num_replicas`), once the servers have found one another. Always native: whoever moves leaders around needs servers of
 * its own.
 */
export const natsCluster = (): Promise<NatsCluster> => retryTakenPort(start)

async function start(): Promise<NatsCluster> {
  const ports = await Promise.all(
    Array.from({ length: COUNT }, async () => ({
      client: await freePort(),
      route: await freePort(),
    })),
  )
  const routes = ports.map(({ route }) => `"nats://127.0.0.1:${route}"`).join(', ')
  const starting = ports.map(({ client, route }, index) =>
    startNode(
      client,
      `server_name: "n${index + 1}"
cluster { name: "tests", listen: "127.0.0.1:${route}", routes: [${routes}] }`,
    ),
  )
  const started = await Promise.allSettled(starting)
  const nodes = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.stop()))
  }
  const failed = started.find((one) => one.status === 'rejected')
  if (failed !== undefined) {
    await stop()
    throw failed.reason
  }
  return { urls: nodes.map(({ connection }) => connection.url), nodes, [Symbol.asyncDispose]: stop }
}
