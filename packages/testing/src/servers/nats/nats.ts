import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { dockerServer } from '../run/docker-container.ts'
import { IMAGES } from '../run/images.ts'
import { nativeServer, retryTakenPort, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { probeTcp } from '../run/probe.ts'
import { launch } from '../run/process.ts'
import { resolveServer, userServer } from '../run/resolve.ts'
import type { Server, ServerOptions } from '../run/server.ts'
import { type Need, toolPaths } from '../run/tools.ts'

/** How to reach a NATS server with JetStream. */
export interface NatsServerConnection {
  readonly url: string
  readonly host: string
  readonly port: number
}

/** Options of {@link nats}. */
export interface NatsOptions extends ServerOptions {
  /** Further lines of the configuration file of a native server, such as users and their permissions. */
  readonly settings?: string | undefined
}

const VARIABLE = 'ONCEWARD_NATS_URL'

/** What a native NATS server needs. */
export const NATS_TOOLS: Need = {
  service: 'nats',
  variable: VARIABLE,
  tools: [{ command: 'nats-server', package: 'nats-server' }],
}

/** A real NATS server with JetStream: `ONCEWARD_NATS_URL`, Docker, or `nats-server` on PATH. */
export async function nats(options: NatsOptions = {}): Promise<Server<NatsServerConnection>> {
  const { settings = '' } = options
  return resolveServer(options, {
    variable: VARIABLE,
    fromEnvironment: async (url) => {
      const connection = connectionTo(url)
      await probeNats(connection)
      return userServer('nats', VARIABLE, connection)
    },
    docker: dockerNats,
    native: () => retryTakenPort(() => nativeNats(settings)),
  })
}

function connectionTo(url: string): NatsServerConnection {
  const { hostname, port } = new URL(url)
  return { url, host: hostname, port: Number(port || 4222) }
}

/** A server says who it is as soon as somebody connects. With JetStream, and not before that is ready. */
function probeNats(connection: NatsServerConnection): Promise<void> {
  const expect = (answer: string): boolean =>
    answer.startsWith('INFO ') && answer.includes('"jetstream":true')
  return probeTcp({ ...connection, send: '', expect })
}

function dockerNats(): Promise<Server<NatsServerConnection>> {
  return dockerServer({
    name: 'nats',
    image: IMAGES.nats,
    port: 4222,
    command: ['-js', '-sd', '/data'],
    connection: (port) => connectionTo(`nats://127.0.0.1:${port}`),
    probe: probeNats,
  })
}

async function nativeNats(settings: string): Promise<Server<NatsServerConnection>> {
  return startNode(await freePort(), settings)
}

/** A native server. `settings` are further lines of its configuration file. */
export async function startNode(
  port: number,
  settings: string,
): Promise<Server<NatsServerConnection>> {
  const tools = await toolPaths(NATS_TOOLS)
  const directory = await serverDirectory('nats')
  const log = join(directory, 'nats.log')
  const config = join(directory, 'nats.conf')
  await writeFile(
    config,
    `listen: "127.0.0.1:${port}"
jetstream { store_dir: "${directory}" }
${settings}
`,
  )
  const connection = connectionTo(`nats://127.0.0.1:${port}`)
  return nativeServer({
    name: 'nats',
    connection,
    directory,
    log,
    stopSignal: 'SIGTERM',
    launch: () =>
      launch({
        command: tools['nats-server'] as string,
        args: ['-c', config],
        cwd: directory,
        log,
        directory,
      }),
    probe: () => probeNats(connection),
  })
}
