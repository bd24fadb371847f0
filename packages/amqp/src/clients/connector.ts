import type { Runtime } from '@onceward/core'
import { endsWithin, withTimeout } from '@onceward/core/adapter'
import type { AmqpChannel, AmqpConnection } from '../client.ts'
import { isConnectionClosed } from '../errors.ts'

/** Of the server behind a channel, as `[4, 2]`; undefined when it does not say. */
export function serverVersion(channel: AmqpChannel): readonly [number, number] | undefined {
  const { connection } = channel
  const properties = isRecord(connection) ? connection['serverProperties'] : undefined
  const version = isRecord(properties) ? String(properties['version']) : ''
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(version) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor)]
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

export interface ConnectorOptions {
  readonly source: AmqpConnection | (() => Promise<AmqpConnection>)
  readonly runtime: Runtime
  /** With the broker's reason while it takes no publishes, undefined when it does again. */
  readonly onBlocked: (reason: string | undefined) => void
  /** The user's own connection is over, and nobody here can open another. */
  readonly onGone: (error: unknown) => void
  readonly onError: (error: unknown) => void
}

const CONNECT_MS = 30_000
const CLOSE_MS = 2_000

/** Gives the user's own connection, or one of its function's, called again when the last was lost. */
export class Connector {
  readonly isOurs: boolean
  readonly #options: ConnectorOptions
  #current: AmqpConnection | undefined
  #detach: () => void = () => undefined
  #isClosed = false

  constructor(options: ConnectorOptions) {
    this.#options = options
    this.isOurs = typeof options.source === 'function'
  }

  /** The connection that is there now. */
  get current(): AmqpConnection | undefined {
    return this.#current
  }

  /** Whether an error of the user's own connection says that it is over for good. */
  isOver(error: unknown): boolean {
    const { source } = this.#options
    if (this.isOurs || !isConnectionClosed(error)) return false
    // amqplib's own recovery, which has no `connection`, says just this when it was closed, and more of one that it
    // replaces soon.
    return 'connection' in source || (error as Error).message === 'Connection closed'
  }

  /** Not to be called again before it has settled. */
  async open(): Promise<AmqpConnection> {
    if (this.#current !== undefined) return this.#current
    const { source, runtime } = this.#options
    const opening = typeof source === 'function' ? called(source) : Promise.resolve(source)
    try {
      const connection = await withTimeout(runtime, opening, {
        call: 'connect',
        budgetMs: CONNECT_MS,
      })
      if (this.#isClosed) throw new Error('the consumer was stopped while it connected')
      this.#attach(connection)
      this.#current = connection
      return connection
    } catch (error) {
      // One that comes late must not stay open.
      if (this.isOurs) opening.then((late) => end(late)).catch(() => undefined)
      throw error
    }
  }

  /** Gives up a connection of ours that is of no use any more. */
  discard(): void {
    const connection = this.#current
    if (!this.isOurs || connection === undefined) return
    this.#current = undefined
    void end(connection)
  }

  /** Ends a connection of ours, lets go of the user's. Bounded, and never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true
    const connection = this.#current
    this.#current = undefined
    if (connection === undefined) return
    if (!this.isOurs) return this.#detach()
    await endsWithin(this.#options.runtime, end(connection), CLOSE_MS)
  }

  #attach(connection: AmqpConnection): void {
    const { onBlocked, onError } = this.#options
    const over = (error: unknown): void => {
      onBlocked(undefined)
      if (this.#current !== connection) return
      this.#current = undefined
      if (!this.isOurs) this.#options.onGone(error)
    }
    const listeners = {
      close: over,
      // Of amqplib's own recovery, which says nothing else when it is over.
      'reconnect-failed': over,
      disconnect: () => onBlocked(undefined),
      error: onError,
      blocked: (reason: unknown) => onBlocked(String(reason)),
      unblocked: () => onBlocked(undefined),
    }
    for (const [event, listener] of Object.entries(listeners)) connection.on(event, listener)
    this.#detach = () => {
      for (const [event, listener] of Object.entries(listeners)) {
        connection.removeListener?.(event, listener)
      }
    }
  }
}

/** A function that throws is one that rejects. */
async function called(source: () => Promise<AmqpConnection>): Promise<AmqpConnection> {
  return source()
}

async function end(connection: AmqpConnection): Promise<void> {
  // One that nobody ever used has no listener yet, and its last word may be an error.
  connection.on('error', () => undefined)
  await connection.close?.().catch(() => undefined)
}
