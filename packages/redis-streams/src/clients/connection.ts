import { hasMethod, refuseUnfitClient } from '@onceward/core/adapter'
import type { Argument, IoredisStreams, StreamClient } from '../client.ts'

/** A connection to one server, or to a cluster. */
export interface Connection {
  readonly isCluster: boolean
  /** Sends a command. Texts of the answer are bytes. `key` tells a cluster which node it is for. */
  call(key: string, args: readonly Argument[]): Promise<unknown>
  /** A connection of our own, for commands that wait. It connects by itself. */
  duplicate(): OwnConnection
}

export interface OwnConnection extends Connection {
  close(): void
}

/** What the clients have beyond what onceward needs. */
interface MayHave {
  readonly isCluster?: boolean
  readonly options?: { readonly redisOptions?: object; readonly enableAutoPipelining?: boolean }
  createBuiltinCommand?(name: string): {
    readonly buffer: (...args: Argument[]) => Promise<unknown>
  }
  on?(event: 'error', listener: () => void): unknown
  connect?(): Promise<unknown>
  disconnect?(): unknown
  destroy?(): unknown
}

/** @throws {@link ConfigurationError} for anything but a client, such as a URL. */
export function connectionOf(
  place: 'consumeStream' | 'wrapStream' | 'streamDestination',
  client: StreamClient,
): Connection {
  if (hasMethod(client, 'callBuffer')) return ofIoredis(client as IoredisStreams)
  refuseUnfitClient(place, client, {
    expected: 'a client of ioredis, iovalkey or node-redis',
    methods: ['sendCommand', 'duplicate'],
    advice: 'Give a client that can be duplicated: `new Redis()` or `createClient()`, not a pool.',
  })
  return ofNodeRedis(client as NodeRedis)
}

/** A command that waits must not be given up, nor share a pipeline. */
const WAITING = {
  enableAutoPipelining: false,
  commandTimeout: undefined,
  blockingTimeout: undefined,
  socketTimeout: undefined,
}

const ignore = (): void => undefined

function ofIoredis(client: IoredisStreams & MayHave): Connection {
  const isCluster = client.isCluster === true
  const duplicate = client.duplicate.bind(client) as (...overrides: object[]) => IoredisStreams
  return {
    isCluster,
    call: (_key, [name, ...args]) => callOf(client, String(name), args),
    duplicate: () => {
      const options = { ...WAITING, redisOptions: { ...client.options?.redisOptions, ...WAITING } }
      const own: IoredisStreams & MayHave = isCluster ? duplicate([], options) : duplicate(WAITING)
      // Without a listener ioredis prints them.
      own.on?.('error', ignore)
      return { ...ofIoredis(own), close: () => void own.disconnect?.() }
    },
  }
}

/**
 * With `enableAutoPipelining`, ioredis and iovalkey leave out the name of what `callBuffer` sends, so that Redis takes the
 * first argument for the command. A command that is made by its name stays outside of these pipelines.
 */
function callOf(
  client: IoredisStreams & MayHave,
  name: string,
  args: readonly Argument[],
): Promise<unknown> {
  const made = client.options?.enableAutoPipelining === true && client.createBuiltinCommand?.(name)
  return made ? made.buffer.call(client, ...args) : client.callBuffer(name, ...args)
}

interface NodeRedis extends MayHave {
  sendCommand(...args: unknown[]): Promise<unknown>
  duplicate(overrides?: object): object
}

/** Version 4 knows the first, later ones the second: the type of texts is 36, of maps 37. */
const AS_BYTES = { returnBuffers: true, typeMapping: { 36: Buffer, 37: Array } }

function ofNodeRedis(client: NodeRedis): Connection {
  const isCluster = ['getSlotRandomNode', 'getSlotMaster'].some((name) => hasMethod(client, name))
  const isSentinel = hasMethod(client, 'getSentinelNode')
  return {
    isCluster,
    call: (key, args) => {
      if (isCluster) return client.sendCommand(key, false, args, AS_BYTES)
      return isSentinel
        ? client.sendCommand(false, args, AS_BYTES)
        : client.sendCommand(args, AS_BYTES)
    },
    duplicate: () => {
      const own = client.duplicate() as NodeRedis
      // Without a listener an error ends the process.
      own.on?.('error', ignore)
      const connection = ofNodeRedis(own)
      const connected = Promise.resolve(own.connect?.())
      connected.catch(ignore)
      return {
        ...connection,
        call: async (key, args) => {
          await connected
          return connection.call(key, args)
        },
        close: () => end(own),
      }
    },
  }
}

/** It may be closed already, or not connected yet: then its clients throw or reject. */
function end(own: NodeRedis): void {
  try {
    void Promise.resolve((own.destroy ?? own.disconnect)?.call(own)).catch(ignore)
  } catch {
    // Nothing is left to close.
  }
}
