import { connect, createServer, type Server as NetServer, type Socket } from 'node:net'
import { freePort } from './ports.ts'
import { type Pipe, pipe } from './proxy-pipe.ts'
import { type Unaccepting, unaccepting } from './unaccepting.ts'

/** What happens to a piece of data: passed on, lost, or the connection is destroyed instead. */
export type DataVerdict = 'pass' | 'drop' | 'cut'

/** `up` flows from the client to the server, `down` back. */
export type Direction = 'up' | 'down'

/** One client connection through the proxy. */
export interface ProxiedConnection {
  /** 1, 2, 3, … in the order of their arrival. */
  readonly number: number
  /** Free for the hook to keep state per connection. */
  readonly notes: Map<string, unknown>
  /** Destroys both sides. */
  cut(): void
}

/** Sees every piece of data before it is passed on. */
export type DataHook = (
  direction: Direction,
  chunk: Buffer,
  connection: ProxiedConnection,
) => DataVerdict

/** A server behind a proxy. */
export interface ProxyTarget {
  readonly host: string
  readonly port: number
}

/** Options of {@link proxy}. */
export interface TcpProxyOptions {
  /** Added to what the client sends, so once to every round trip. */
  readonly latencyMs?: number | undefined
  readonly onData?: DataHook | undefined
}

/** What {@link TcpProxy.pause} holds back; all of it where nothing is said. */
export interface Silence {
  /** `up`: requests do not arrive. `down`: they are carried out, and the answers do not arrive. Default: both. */
  readonly direction?: Direction | undefined
  /** Asked once for each connection, also for those that are opened meanwhile. Default: every connection. */
  readonly only?: ((connection: ProxiedConnection) => boolean) | undefined
}

/** A TCP proxy on loopback that can be hurt while it works. */
export interface TcpProxy extends AsyncDisposable {
  readonly host: string
  readonly port: number
  /** Where connections that are opened from now on lead. Set it as a failover moves an address. */
  target: ProxyTarget
  latencyMs: number
  onData: DataHook | undefined
  /** Connections that are open now. */
  readonly connections: number
  /** Holds data back, as a network that has gone silent. Nothing is closed. */
  pause(silence?: Silence): void
  /** Passes on what was held back, and continues. */
  resume(): void
  /** Destroys all connections. */
  cut(): void
  /** While true, new connections are reset. */
  refuse(refusing: boolean): void
  /** While true, new connections are neither accepted nor refused. Open ones continue. */
  ignore(ignoring: boolean): Promise<void>
  stop(): Promise<void>
}

interface Link {
  readonly connection: ProxiedConnection
  readonly pipes: Readonly<Record<Direction, Pipe>>
}

function hold({ connection, pipes }: Link, { direction, only }: Silence): void {
  if (only?.(connection) === false) return
  if (direction !== 'down') pipes.up.hold()
  if (direction !== 'up') pipes.down.hold()
}

interface State {
  silence: Silence | undefined
  refusing: boolean
  /** Listens instead of the proxy. */
  ignored: Unaccepting | undefined
  count: number
}

/** Starts a proxy in front of `target`. */
export async function proxy(target: ProxyTarget, options: TcpProxyOptions = {}): Promise<TcpProxy> {
  const links = new Set<Link>()
  const state: State = { silence: undefined, refusing: false, ignored: undefined, count: 0 }
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    if (state.refusing) return void client.resetAndDestroy()
    state.count += 1
    const link = connectThrough(client, state.count, self)
    links.add(link)
    if (state.silence !== undefined) hold(link, state.silence)
    client.once('close', () => links.delete(link))
  })
  const stop = async (): Promise<void> => {
    self.cut()
    await state.ignored?.stop()
    await new Promise((resolve) => server.close(resolve))
  }
  const port = await freePort()
  await listen(server, port)
  const self: TcpProxy = {
    host: '127.0.0.1',
    port,
    target,
    latencyMs: options.latencyMs ?? 0,
    onData: options.onData,
    get connections() {
      return links.size
    },
    pause: (silence = {}) => {
      state.silence = silence
      for (const link of links) hold(link, silence)
    },
    resume: () => {
      state.silence = undefined
      for (const { pipes } of links) for (const each of Object.values(pipes)) each.release()
    },
    cut: () => {
      for (const { connection } of links) connection.cut()
    },
    refuse: (refusing) => {
      state.refusing = refusing
    },
    ignore: async (ignoring) => {
      if (ignoring === (state.ignored !== undefined)) return
      if (ignoring) {
        // Stops listening at once; the callback would come when the last connection has closed.
        server.close()
        state.ignored = await unaccepting(port)
      } else {
        await state.ignored?.stop()
        state.ignored = undefined
        await listen(server, port)
      }
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
  return self
}

/**
 * A hook that cuts the connection in the moment when the server answers to a text of the client
 * that matches: the server has done it, the client never learns.
 */
export function swallowReplyTo(
  pattern: RegExp,
  times: number = Number.POSITIVE_INFINITY,
): DataHook {
  let left = times
  return (direction, chunk, connection) => {
    if (direction === 'up') {
      if (left > 0 && pattern.test(chunk.toString('latin1'))) {
        left -= 1
        connection.notes.set('swallow', true)
      }
      return 'pass'
    }
    return connection.notes.has('swallow') ? 'cut' : 'pass'
  }
}

function connectThrough(client: Socket, number: number, settings: TcpProxy): Link {
  const upstream = connect({ ...settings.target, noDelay: true, allowHalfOpen: true })
  const cut = (): void => {
    client.resetAndDestroy()
    upstream.destroy()
  }
  const connection: ProxiedConnection = { number, notes: new Map(), cut }
  const judge =
    (direction: Direction) =>
    (chunk: Buffer): boolean => {
      const verdict = settings.onData?.(direction, chunk, connection) ?? 'pass'
      if (verdict === 'cut') cut()
      return verdict === 'pass'
    }
  const pipes = {
    up: pipe(client, upstream, { judge: judge('up'), latencyMs: () => settings.latencyMs }),
    down: pipe(upstream, client, { judge: judge('down'), latencyMs: () => 0 }),
  }
  client.on('error', cut)
  upstream.on('error', cut)
  return { connection, pipes }
}

function listen(server: NetServer, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
}
