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

/** How to reach a Redis server. */
export interface RedisConnection {
  readonly url: string
  readonly host: string
  readonly port: number
}

/** Options of {@link redis}. */
export interface RedisOptions extends ServerOptions {
  /** Settings of a server of our own, as in redis.conf. */
  readonly settings?: Readonly<Record<string, string>> | undefined
}

/** What a native Redis needs. */
export const REDIS_TOOLS: Need = {
  service: 'redis',
  variable: 'ONCEWARD_REDIS_URL',
  tools: [{ command: 'redis-server', package: 'redis-server' }],
}

// The log is written before a command is answered, so that SIGKILL loses nothing that was
// acknowledged; only a crash of the machine could. With the default of `appendfsync`, `everysec`,
// Redis puts the write off for up to 2 s while the disk is busy with the last sync, and answers.
const SETTINGS = { appendonly: 'yes', appendfsync: 'no', save: '' }

/** A real Redis that keeps its data: `ONCEWARD_REDIS_URL`, Docker, or `redis-server` on PATH. */
export async function redis(options: RedisOptions = {}): Promise<Server<RedisConnection>> {
  const settings = { ...SETTINGS, ...options.settings }
  return resolveServer(options, {
    variable: 'ONCEWARD_REDIS_URL',
    fromEnvironment: async (url) => {
      const connection = redisConnection(url)
      // A server with a password answers -NOAUTH, one with TLS nothing at all.
      if (!url.startsWith('rediss:')) await probeRedis(connection, (answer) => /^[+-]/.test(answer))
      return userServer('redis', 'ONCEWARD_REDIS_URL', connection)
    },
    docker: () => dockerRedis(settings),
    native: () => retryTakenPort(() => nativeRedis(settings)),
  })
}

function redisConnection(url: string): RedisConnection {
  const { hostname, port } = new URL(url)
  return { url, host: hostname, port: Number(port || 6379) }
}

const isPong = (answer: string): boolean => answer.startsWith('+PONG')

function probeRedis(
  connection: RedisConnection,
  expect: (answer: string) => boolean,
): Promise<void> {
  return probeTcp({ ...connection, send: 'PING\r\n', expect })
}

function flagsOf(settings: Readonly<Record<string, string>>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
}

function dockerRedis(settings: Readonly<Record<string, string>>): Promise<Server<RedisConnection>> {
  return dockerServer({
    name: 'redis',
    image: IMAGES.redis,
    port: 6379,
    command: ['redis-server', ...flagsOf(settings)],
    connection: (port) => redisConnection(`redis://127.0.0.1:${port}`),
    probe: (connection) => probeRedis(connection, isPong),
  })
}

async function nativeRedis(
  settings: Readonly<Record<string, string>>,
): Promise<Server<RedisConnection>> {
  const tools = await toolPaths(REDIS_TOOLS)
  const port = await freePort()
  const directory = await serverDirectory('redis')
  const log = join(directory, 'redis.log')
  const connection = redisConnection(`redis://127.0.0.1:${port}`)
  const own = { bind: '127.0.0.1', port: String(port), dir: directory, ...settings }
  return nativeServer({
    name: 'redis',
    connection,
    directory,
    log,
    stopSignal: 'SIGTERM',
    launch: () =>
      launch({
        command: tools['redis-server'] as string,
        args: flagsOf(own),
        cwd: directory,
        log,
        directory,
      }),
    probe: () => probeRedis(connection, isPong),
  })
}
