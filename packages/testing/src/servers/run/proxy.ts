import { connect, createServer, type Server as NetServer, type Socket } from 'node:net'
import { freePort } from './ports.ts'
import { type Pipe, pipe } from './proxy-pipe.ts'

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

/** Options of {@link proxy}. */
export interface TcpProxyOptions {
  /** Added to what the client sends, so once to every round trip. */
  readonly latencyMs?: number | undefined
  readonly onData?: DataHook | undefined
}

/** A TCP proxy on loopback that can be hurt while it works. */
export interface TcpProxy extends AsyncDisposable {
  readonly host: string
  readonly port: number
  latencyMs: number
  onData: DataHook | undefined
  /** Connections that are open now. */
  readonly connections: number
  /** Holds all data back in both directions, as a network that has gone silent. */
  pause(): void
  /** Passes on what was held back and goes on. */
  resume(): void
  /** Destroys all connections. */
  cut(): void
  /** While true, new connections are reset. */
  refuse(refusing: boolean): void
  stop(): Promise<void>
}

interface Link {
  readonly pipes: readonly Pipe[]
  cut(): void
}

/** Starts a proxy in front of `target`. */
export async function proxy(
  target: { readonly host: string; readonly port: number },
  options: TcpProxyOptions = {},
): Promise<TcpProxy> {
  const links = new Set<Link>()
  const state = { paused: false, refusing: false, count: 0 }
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    if (state.refusing) return void client.resetAndDestroy()
    state.count += 1
    const link = connectThrough(client, target, state.count, self)
    links.add(link)
    if (state.paused) for (const each of link.pipes) each.hold()
    client.once('close', () => links.delete(link))
  })
  const stop = async (): Promise<void> => {
    self.cut()
    await new Promise((resolve) => server.close(resolve))
  }
  const self: TcpProxy = {
    host: '127.0.0.1',
    port: await listen(server),
    latencyMs: options.latencyMs ?? 0,
    onData: options.onData,
    get connections() {
      return links.size
    },
    pause: () => {
      state.paused = true
      for (const link of links) for (const each of link.pipes) each.hold()
    },
    resume: () => {
      state.paused = false
      for (const link of links) for (const each of link.pipes) each.release()
    },
    cut: () => {
      for (const link of links) link.cut()
    },
    refuse: (refusing) => {
      state.refusing = refusing
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

function connectThrough(
  client: Socket,
  target: { readonly host: string; readonly port: number },
  number: number,
  settings: TcpProxy,
): Link {
  const upstream = connect({ ...target, noDelay: true, allowHalfOpen: true })
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
  const pipes = [
    pipe(client, upstream, { judge: judge('up'), latencyMs: () => settings.latencyMs }),
    pipe(upstream, client, { judge: judge('down'), latencyMs: () => 0 }),
  ]
  client.on('error', cut)
  upstream.on('error', cut)
  return { pipes, cut }
}

async function listen(server: NetServer): Promise<number> {
  const port = await freePort()
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => resolve(port))
  })
}
