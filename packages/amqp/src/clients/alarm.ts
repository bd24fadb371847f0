import type { GuardPort } from '@onceward/core/adapter'
import type { Publisher } from './publisher.ts'

export interface AlarmOptions {
  readonly port: Pick<GuardPort, 'logger'>
  readonly queue: string
  readonly publisher: Pick<Publisher, 'blocked' | 'unconfirmed'>
  /** Messages are published on the connection that consumes. */
  readonly isShared: boolean
}

/** The broker is low on memory or disk and accepts no messages: none is published until it does. */
export class Alarm {
  readonly #options: AlarmOptions
  /** By the connection that is blocked. */
  readonly #reasons = new Map<object, string>()

  constructor(options: AlarmOptions) {
    this.#options = options
  }

  get outage(): { readonly state: 'recovering'; readonly reason: string } | undefined {
    const { blocked } = this.#options.publisher
    if (blocked === undefined) return undefined
    const consequence = this.#options.isShared
      ? 'it does not read the acks of this connection either'
      : 'messages that must be published are held, and consuming continues'
    return {
      state: 'recovering',
      reason: `the broker blocks publishers: ${blocked}; ${consequence}`,
    }
  }

  /** Undefined: the connection is no longer blocked, or gone. */
  changed(connection: object, reason: string | undefined): void {
    const { port, queue, publisher } = this.#options
    if (reason === undefined) this.#reasons.delete(connection)
    else this.#reasons.set(connection, reason)
    const [now] = this.#reasons.values()
    if (now === publisher.blocked) return
    publisher.blocked = now
    const fields = { queue, reason: now, unconfirmed: publisher.unconfirmed }
    if (now !== undefined) port.logger.warn(fields, 'the broker blocks publishers')
    else port.logger.info(fields, 'the broker no longer blocks publishers')
  }
}
