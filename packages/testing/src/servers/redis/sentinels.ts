import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { until } from '../../until.ts'
import { nativeServer, retryTakenPort, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { probeTcp } from '../run/probe.ts'
import { launch } from '../run/process.ts'
import type { Server } from '../run/server.ts'
import { toolPaths } from '../run/tools.ts'
import { REDIS_TOOLS, type RedisConnection } from './redis.ts'

/** Sentinels that watch one primary. */
export interface RedisSentinels extends AsyncDisposable {
  /** What the primary is called. */
  readonly name: string
  readonly nodes: readonly RedisConnection[]
}

/** Options of {@link sentinels}. */
export interface SentinelOptions {
  /** A primary that is silent this long is replaced, ms. @defaultValue 1000 */
  readonly downAfterMs?: number | undefined
}

const NAME = 'onceward'
const COUNT = 3

/**
 * Three real `redis-server --sentinel` processes around a primary; resolves when they know each other and one of its
 * replicas, so that they can replace it.
 */
export async function sentinels(
  primary: RedisConnection,
  { downAfterMs = 1_000 }: SentinelOptions = {},
): Promise<RedisSentinels> {
  const starting = Array.from({ length: COUNT }, () =>
    retryTakenPort(() => sentinel(primary, downAfterMs)),
  )
  const servers = await Promise.all(starting)
  const nodes = servers.map(({ connection }) => connection)
  for (const node of nodes) {
    await answers(node, `SENTINEL CKQUORUM ${NAME}`, /^\+OK 3 usable/)
    await answers(node, `SENTINEL REPLICAS ${NAME}`, /^\*[1-9]/)
  }
  return {
    name: NAME,
    nodes,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(servers.map((server) => server.stop()))
    },
  }
}

async function answers(node: RedisConnection, command: string, wanted: RegExp): Promise<void> {
  const asked = { ...node, send: `${command}\r\n`, expect: (text: string) => wanted.test(text) }
  await until(() => probeTcp(asked).then(() => true), { what: `${command} to answer ${wanted}` })
}

async function sentinel(
  primary: RedisConnection,
  downAfterMs: number,
): Promise<Server<RedisConnection>> {
  const tools = await toolPaths(REDIS_TOOLS)
  const port = await freePort()
  const directory = await serverDirectory('sentinel')
  const log = join(directory, 'sentinel.log')
  // Not among the arguments: a sentinel writes what it learns into its file.
  const config = join(directory, 'sentinel.conf')
  await writeFile(
    config,
    `bind 127.0.0.1
port ${port}
dir ${directory}
sentinel monitor ${NAME} ${primary.host} ${primary.port} ${Math.floor(COUNT / 2) + 1}
sentinel down-after-milliseconds ${NAME} ${downAfterMs}
sentinel failover-timeout ${NAME} ${2 * downAfterMs}
`,
  )
  const connection = { url: `redis://127.0.0.1:${port}`, host: '127.0.0.1', port }
  return nativeServer({
    name: 'redis',
    connection,
    directory,
    log,
    stopSignal: 'SIGTERM',
    launch: () =>
      launch({
        command: tools['redis-server'] as string,
        args: [config, '--sentinel'],
        cwd: directory,
        log,
        directory,
      }),
    probe: () =>
      probeTcp({ ...connection, send: 'PING\r\n', expect: (text) => text.startsWith('+PONG') }),
  })
}
