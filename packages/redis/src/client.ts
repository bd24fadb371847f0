import { hasMethod, isError, refuseUnfitClient } from '@onceward/core/adapter'
import type { RedisUser } from './errors.ts'

/** ioredis and iovalkey: single node, Sentinel, Cluster. */
export interface IoredisLike {
  evalsha(sha: string, numberOfKeys: number, ...args: (string | Buffer)[]): Promise<unknown>
  script(subcommand: 'LOAD', source: string): Promise<unknown>
}

/** node-redis: client, pool, Sentinel, Cluster. */
export interface NodeRedisLike {
  evalSha(sha: string, options: NodeRedisArguments): Promise<unknown>
  eval(script: string, options: NodeRedisArguments): Promise<unknown>
}

/** Of texts only, as node-redis 4 declares it. All versions take bytes too. */
export interface NodeRedisArguments {
  keys?: string[]
  arguments?: string[]
}

/** The part of a client that onceward calls. Onceward neither closes nor changes the client, and adds no listeners. */
export type RedisLike = IoredisLike | NodeRedisLike

/** One script with its keys and arguments. */
export interface ScriptCall {
  readonly source: string
  readonly sha: string
  readonly keys: readonly (string | Buffer)[]
  readonly args: readonly (string | Buffer)[]
}

export type Evaluate = (call: ScriptCall) => Promise<unknown>

/** Runs scripts by their hash, and sends the text if the server does not know the hash. */
export function toEvaluate(client: RedisLike, user: RedisUser = 'redisLeases'): Evaluate {
  const { byHash, byText } = waysOf(client, user)
  return async (call) => {
    try {
      return await byHash(call)
    } catch (error) {
      if (!isNoScript(error)) throw error
      return byText(call)
    }
  }
}

/** @throws {@link ConfigurationError} for anything but a client, such as a URL. */
function waysOf(client: RedisLike, user: RedisUser): Ways {
  if (hasMethod(client, 'evalSha')) return ofNodeRedis(client as NodeRedisLike)
  refuseUnfitClient(user, client, { expected: 'a Redis client', methods: ['evalsha'] })
  return ofIoredis(client as IoredisLike)
}

interface Ways {
  readonly byHash: Evaluate
  readonly byText: Evaluate
}

function ofNodeRedis(client: NodeRedisLike): Ways {
  const options = ({ keys, args }: ScriptCall): NodeRedisArguments => ({
    keys: [...keys] as string[],
    arguments: [...args] as string[],
  })
  return {
    byHash: (call) => client.evalSha(call.sha, options(call)),
    byText: (call) => client.eval(call.source, options(call)),
  }
}

/** What the clients have beyond what onceward needs. */
interface MayHave {
  readonly isCluster?: boolean
  readonly options?: { readonly enableAutoPipelining?: boolean }
  eval?(source: string, numberOfKeys: number, ...args: (string | Buffer)[]): Promise<unknown>
  createBuiltinCommand?(name: 'eval' | 'evalsha'): { readonly string: IoredisLike['evalsha'] }
}

function ofIoredis(client: IoredisLike & MayHave): Ways {
  const byHash: Evaluate = ({ sha, keys, args }) =>
    (alone(client, 'evalsha') ?? client.evalsha).call(client, sha, keys.length, ...keys, ...args)
  return {
    byHash,
    byText: async (call) => {
      const { source, keys, args } = call
      const evaluate = alone(client, 'eval') ?? client.eval
      // EVAL goes to the node of the keys. SCRIPT LOAD goes to any node of a cluster.
      if (evaluate !== undefined)
        return evaluate.call(client, source, keys.length, ...keys, ...args)
      await client.script('LOAD', source)
      return byHash(call)
    },
  }
}

/**
 * The command outside of the pipelines of `enableAutoPipelining`: on a cluster they refuse scripts for several slots or
 * nodes, and do not follow a slot that moves.
 */
function alone(
  { createBuiltinCommand, isCluster, options }: MayHave,
  name: 'eval' | 'evalsha',
): IoredisLike['evalsha'] | undefined {
  return isCluster === true && options?.enableAutoPipelining === true
    ? createBuiltinCommand?.(name).string
    : undefined
}

function isNoScript(error: unknown): boolean {
  return isError(error) && error.message.startsWith('NOSCRIPT')
}

interface MayConfigure {
  config?(subcommand: 'GET', name: string): Promise<unknown>
  configGet?(name: string): Promise<unknown>
}

/** A setting of the server, where client, user and server let it be read. A script may not ask for it. */
export async function settingOf(client: RedisLike, name: string): Promise<string | undefined> {
  const { config, configGet } = client as MayConfigure
  try {
    const answer = await (configGet?.call(client, name) ?? config?.call(client, 'GET', name))
    const value: unknown = Array.isArray(answer) ? answer[1] : Reflect.get(Object(answer), name)
    return value === undefined ? undefined : String(value)
  } catch {
    return undefined
  }
}
