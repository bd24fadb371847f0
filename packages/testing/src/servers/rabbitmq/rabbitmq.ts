import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { until } from '../../until.ts'
import { dockerServer } from '../run/docker-container.ts'
import { IMAGES } from '../run/images.ts'
import { nativeServer, retryTakenPort, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { probeTcp } from '../run/probe.ts'
import { launch, type OwnedProcess } from '../run/process.ts'
import { resolveServer, userServer } from '../run/resolve.ts'
import type { Server, ServerOptions } from '../run/server.ts'
import { type Need, toolPaths } from '../run/tools.ts'

/** How to reach a RabbitMQ node. */
export interface RabbitmqConnection {
  readonly url: string
}

/** Options of {@link rabbitmq}. */
export interface RabbitmqOptions extends ServerOptions {
  /** Settings of a server of our own, as in rabbitmq.conf. */
  readonly settings?: Readonly<Record<string, string>> | undefined
}

interface Node {
  readonly directory: string
  readonly port: number
  readonly distPort: number
  readonly epmdPort: number
}

const SETTINGS = {
  'vm_memory_high_watermark.absolute': '512MB',
  'disk_free_limit.absolute': '50MB',
}

/** Where the commands are; those of the same names in /usr/sbin switch the user. */
export const RABBITMQ_BIN: string = process.env['ONCEWARD_RABBITMQ_BIN'] ?? '/usr/lib/rabbitmq/bin'

/** What a native RabbitMQ needs. */
export const RABBITMQ_TOOLS: Need = {
  service: 'rabbitmq',
  variable: 'ONCEWARD_RABBITMQ_URL',
  tools: [
    {
      command: 'rabbitmq-server',
      package: 'rabbitmq-server',
      directories: [RABBITMQ_BIN],
    },
    { command: 'epmd', package: 'erlang-base' },
  ],
}

/** A real RabbitMQ: `ONCEWARD_RABBITMQ_URL`, Docker, or a node of our own. */
export async function rabbitmq(options: RabbitmqOptions = {}): Promise<Server<RabbitmqConnection>> {
  const settings = { ...SETTINGS, ...options.settings }
  return resolveServer(options, {
    variable: 'ONCEWARD_RABBITMQ_URL',
    fromEnvironment: async (url) => {
      if (!url.startsWith('amqps:')) await probeAmqp(url)
      return userServer('rabbitmq', 'ONCEWARD_RABBITMQ_URL', { url })
    },
    docker: dockerRabbitmq,
    native: () => retryTakenPort(() => nativeRabbitmq(settings)),
  })
}

/** A broker answers the protocol header with its first method frame. */
function probeAmqp(url: string): Promise<void> {
  const { hostname, port } = new URL(url)
  return probeTcp({
    host: hostname,
    port: Number(port || 5672),
    send: 'AMQP\x00\x00\x09\x01',
    // 1 is the type of a method frame; a broker of another version would answer AMQP.
    expect: (answer) => answer.charCodeAt(0) === 1,
  })
}

function dockerRabbitmq(): Promise<Server<RabbitmqConnection>> {
  return dockerServer({
    name: 'rabbitmq',
    image: IMAGES.rabbitmq,
    port: 5672,
    // Its name is part of the path of its data, and would be another after a restart.
    environment: () => ({ RABBITMQ_NODENAME: 'onceward@localhost' }),
    connection: (port) => ({ url: `amqp://guest:guest@127.0.0.1:${port}` }),
    probe: ({ url }) => probeAmqp(url),
  })
}

async function nativeRabbitmq(
  settings: Readonly<Record<string, string>>,
): Promise<Server<RabbitmqConnection>> {
  const tools = await toolPaths(RABBITMQ_TOOLS)
  const node = {
    directory: await serverDirectory('rabbitmq'),
    port: await freePort(),
    distPort: await freePort(),
    epmdPort: await freePort(),
  }
  const env = await prepare(node, settings)
  const epmd = await startEpmd(tools['epmd'] as string, node)
  const url = `amqp://guest:guest@127.0.0.1:${node.port}`
  const log = join(node.directory, 'rabbitmq.log')
  const server = await nativeServer({
    name: 'rabbitmq',
    connection: { url },
    directory: node.directory,
    log,
    stopSignal: 'SIGTERM',
    startDeadlineMs: 180_000,
    launch: () =>
      launch({
        command: tools['rabbitmq-server'] as string,
        args: [],
        env,
        cwd: node.directory,
        log,
        directory: node.directory,
      }),
    probe: () => probeAmqp(url),
  }).catch(async (error: unknown) => {
    await epmd.kill('SIGKILL')
    throw error
  })
  return withCompanion(server, epmd)
}

async function prepare(
  node: Node,
  settings: Readonly<Record<string, string>>,
): Promise<NodeJS.ProcessEnv> {
  const inside = (name: string): string => join(node.directory, name)
  const all = { 'listeners.tcp.1': `127.0.0.1:${node.port}`, ...settings }
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}\n`)
  await writeFile(inside('rabbitmq.conf'), lines.join(''))
  await writeFile(inside('plugins'), '[].')
  await mkdir(inside('log'))
  await mkdir(inside('mnesia'))
  return {
    PATH: process.env['PATH'],
    // Gives it an .erlang.cookie of its own.
    HOME: node.directory,
    // Erlang writes it into the working directory, which is the user's, also for rabbitmqctl.
    ERL_CRASH_DUMP: inside('erl_crash.dump'),
    ERL_EPMD_PORT: String(node.epmdPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: `onceward-${node.port}@localhost`,
    RABBITMQ_DIST_PORT: String(node.distPort),
    RABBITMQ_MNESIA_BASE: inside('mnesia'),
    RABBITMQ_LOG_BASE: inside('log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_ENABLED_PLUGINS_FILE: inside('plugins'),
    RABBITMQ_PID_FILE: inside('pid'),
    RABBITMQ_CONFIG_FILE: inside('rabbitmq.conf'),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
      '+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}',
    // Without it a shell stays between this process and the node, and survives it.
    RUNNING_UNDER_SYSTEMD: 'true',
  }
}

/** A name server of our own: the one that Erlang starts otherwise would stay behind. */
async function startEpmd(command: string, node: Node): Promise<OwnedProcess> {
  const epmd = await launch({
    command,
    args: ['-port', String(node.epmdPort), '-address', '127.0.0.1'],
    log: join(node.directory, 'epmd.log'),
    directory: node.directory,
  })
  const names = {
    host: '127.0.0.1',
    port: node.epmdPort,
    send: '\x00\x01n',
    expect: (): boolean => true,
  }
  await until(() => probeTcp(names).then(() => true), { what: 'epmd to answer' })
  return epmd
}

function withCompanion<C>(server: Server<C>, companion: OwnedProcess): Server<C> {
  const stop = async (): Promise<void> => {
    await server.stop()
    await companion.kill('SIGKILL')
  }
  return Object.defineProperties({} as Server<C>, {
    ...Object.getOwnPropertyDescriptors(server),
    stop: { value: stop },
    [Symbol.asyncDispose]: { value: stop },
  })
}
