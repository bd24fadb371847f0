import type { NatsConnection } from '@nats-io/transport-node'
import type { NatsClient } from '@onceward/nats'

export interface Watch {
  /** A verb is about to be published. */
  onSay?(verb: string): void
  /** The client has received a message of the stream. */
  onMessage?(position: string, data: Uint8Array): void
}

/** A connection whose messages are watched here, because the adapter has no hook for tests. */
export function watchedClient(connection: NatsConnection, watch: Watch): NatsClient {
  return {
    flush: () => connection.flush(),
    isClosed: () => connection.isClosed(),
    request: (...args) => connection.request(...args),
    status: () => connection.status(),
    publish: (subject, payload, options) => {
      if (subject.startsWith('$JS.ACK.')) watch.onSay?.(String(payload))
      connection.publish(subject, payload, options)
    },
    subscribe: (subject, options) =>
      connection.subscribe(subject, {
        ...options,
        callback: (error, message) => {
          const position = positionOf(message?.reply ?? '')
          if (position !== undefined) watch.onMessage?.(position, message.data)
          void options?.callback?.(error, message)
        },
      }),
  }
}

/** The sequence in the stream. */
function positionOf(reply: string): string | undefined {
  if (!reply.startsWith('$JS.ACK.')) return undefined
  const tokens = reply.split('.')
  return tokens[tokens.length === 9 ? 5 : 7]
}
