import { refuseUnfitClient } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { NatsClient } from '../client.ts'

/** @throws {@link ConfigurationError} for anything but a connection, such as the client of JetStream. */
export function refuseOtherNatsClient(
  place: 'consumeNats' | 'wrapNats' | 'natsDestination',
  client: unknown,
): void {
  refuseUnfitClient(place, client, {
    expected: 'a connection of @nats-io/transport-node',
    methods: ['flush', 'isClosed', 'publish', 'request', 'status', 'subscribe'],
    advice: 'Give `await connect()` itself, not `jetstream(connection)`.',
  })
}

/** What a connection has beside its type. */
interface MayHave {
  readonly options?: { readonly inboxPrefix?: string; readonly maxReconnectAttempts?: number }
}

export const optionsOf = (client: NatsClient): NonNullable<MayHave['options']> =>
  (client as MayHave).options ?? {}

/** Whether the connection is up. What is published while it is not would be sent when it comes back, however late. */
export class ConnectionWatch {
  onInterrupted: () => void = () => undefined
  onError: (error: Error) => void = () => undefined
  #isUp = true
  readonly #client: NatsClient
  readonly #runtime: Runtime
  readonly #waiting = new Set<() => void>()
  readonly #status: AsyncIterable<{ readonly type: string; readonly error?: Error }> & {
    stop?(): void
  }

  constructor(client: NatsClient, runtime: Runtime) {
    this.#client = client
    this.#runtime = runtime
    this.#status = client.status()
    void this.#follow()
  }

  get isUp(): boolean {
    return this.#isUp && !this.#client.isClosed()
  }

  /** Resolves when it is up, or with false when the time is over or the connection is closed. */
  async up(withinMs: number): Promise<boolean> {
    if (this.isUp) return true
    if (withinMs <= 0 || this.#client.isClosed()) return false
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#runtime.setTimer(resolve, withinMs)
    this.#waiting.add(resolve)
    await promise
    cancel()
    this.#waiting.delete(resolve)
    return this.isUp
  }

  stop(): void {
    this.#status.stop?.()
    this.#wake()
  }

  async #follow(): Promise<void> {
    for await (const { type, error } of this.#status) {
      if (type === 'disconnect' || type === 'staleConnection') this.#interrupted()
      if (type === 'reconnect') {
        this.#isUp = true
        this.#wake()
      }
      if (type === 'close') {
        this.#interrupted()
        this.#wake()
      }
      if (type === 'error' && error !== undefined) this.onError(error)
    }
  }

  #interrupted(): void {
    this.#isUp = false
    this.onInterrupted()
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve()
  }
}
