import { CallTimeoutError, endsWithin, withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { AmqpChannel, AmqpConfirmChannel, AmqpConnection } from '../client.ts'
import { classifyError, isConnectionClosed, PublishError } from '../errors.ts'
import { listenTo } from './listeners.ts'

/** The version of the server behind a channel, as `[4, 2]`; undefined if the server does not report it. */
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
  /** Called with the broker's reason while it blocks publishers, and with undefined when it no longer does. */
  readonly onBlocked: (reason: string | undefined) => void
  /** The user's connection ended, and onceward cannot open another. */
  readonly onGone: (error: unknown) => void
  readonly onError: (error: unknown) => void
}

const STOPPED = 'the consumer was stopped, and connects no more'
const CONNECT_MS = 30_000
const CHANNEL_MS = 10_000
const CLOSE_MS = 2_000

/** Provides the user's connection, or opens one with the user's function, again after each loss. */
export class Connector {
  readonly isOurs: boolean
  readonly #options: ConnectorOptions
  #current: AmqpConnection | undefined
  #opening: Promise<AmqpConnection> | undefined
  #detach: () => void = () => undefined
  #isClosed = false

  constructor(options: ConnectorOptions) {
    this.#options = options
    this.isOurs = typeof options.source === 'function'
  }

  /** Whether an error says that the user's connection ended for good. */
  isOver(error: unknown): boolean {
    const { source } = this.#options
    if (this.isOurs || !isConnectionClosed(error)) return false
    // A connection with amqplib's own recovery has no `connection`. Its error is exactly this when the user closed it,
    // and longer when amqplib is about to replace it.
    return 'connection' in source || (error as Error).message === 'Connection closed'
  }

  /** The connection that is open, or a new one. */
  async open(): Promise<AmqpConnection> {
    if (this.#current !== undefined) return this.#current
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  /** A confirm channel. A connection of ours that does not answer is discarded, and the next call opens another. */
  async openChannel(): Promise<AmqpConfirmChannel> {
    if (!this.isOurs && this.#current === undefined) {
      throw new PublishError('there is no connection to the broker')
    }
    const connection = await this.open()
    const opening = connection.createConfirmChannel()
    const limits = { call: 'createConfirmChannel', budgetMs: CHANNEL_MS }
    try {
      return await withTimeout(this.#options.runtime, opening, limits)
    } catch (error) {
      // A channel that opens late must not stay open.
      opening.then((late) => late.close()).catch(() => undefined)
      const { kind } = classifyError(error)
      if (kind === 'network' || error instanceof CallTimeoutError) this.discard()
      throw error
    }
  }

  async #open(): Promise<AmqpConnection> {
    const { source, runtime } = this.#options
    if (this.#isClosed) throw new Error(STOPPED)
    const opening = typeof source === 'function' ? called(source) : Promise.resolve(source)
    try {
      const connection = await withTimeout(runtime, opening, {
        call: 'connect',
        budgetMs: CONNECT_MS,
      })
      if (this.#isClosed) throw new Error(STOPPED)
      this.#attach(connection)
      this.#current = connection
      return connection
    } catch (error) {
      // A connection that opens late must not stay open.
      if (this.isOurs) opening.then((late) => end(late)).catch(() => undefined)
      throw error
    }
  }

  /** Closes a connection that onceward opened and that is of no use any more. */
  discard(): void {
    const connection = this.#current
    if (!this.isOurs || connection === undefined) return
    this.#current = undefined
    void end(connection)
  }

  /** Closes a connection that onceward opened; only detaches from the user's. Bounded, and never rejects. */
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
      // The only event of amqplib's own recovery when it gives up.
      'reconnect-failed': over,
      disconnect: () => onBlocked(undefined),
      error: onError,
      blocked: (reason: unknown) => onBlocked(String(reason)),
      unblocked: () => onBlocked(undefined),
    }
    this.#detach = listenTo(connection, listeners)
  }
}

const NO_CONNECTION =
  'The connection function answered no connection. Let it return what `connect()` of amqplib answers.'

async function called(source: () => Promise<AmqpConnection>): Promise<AmqpConnection> {
  const connection: Partial<AmqpConnection> | undefined = await source()
  if (typeof connection?.createChannel === 'function') return connection as AmqpConnection
  throw new Error(NO_CONNECTION)
}

async function end(connection: AmqpConnection): Promise<void> {
  // A connection that was never used has no listener yet, and may still emit an error.
  connection.on('error', () => undefined)
  await connection.close?.().catch(() => undefined)
}
