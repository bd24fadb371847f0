import {
  ConfigurationError,
  type Confirmation,
  type Destination,
  type OutgoingMessage,
} from '@onceward/core'
import { outgoingHeaders, refuseUnknownNames } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import type { AmqpConnection } from '../client.ts'
import { PublishError } from '../errors.ts'
import { Connector } from './connector.ts'
import { Publisher } from './publisher.ts'

/** Options of {@link amqpDestination}. */
export interface AmqpDestinationOptions {
  /** `''` is the default exchange, whose routing keys are the names of queues. */
  readonly exchange: string
  readonly routingKey: string
}

const BATCH = 100

/**
 * An exchange as a destination of the outbox's relay. Messages are persistent and mandatory and wait for the broker's
 * confirm: one that reaches no queue is refused, and stays in the outbox.
 *
 * @param connect - Opens a connection of amqplib, again after each loss. The relay closes it.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { amqpDestination } from '@onceward/amqp'
 * import { startRelay } from '@onceward/postgres/outbox'
 * import { connect } from 'amqplib'
 *
 * const open = () => connect('amqp://localhost')
 * const orders = amqpDestination(open, { exchange: '', routingKey: 'orders' })
 * const relay = await startRelay({ pool, destinations: { orders } })
 * await relay.stopped
 * ```
 */
export function amqpDestination(
  connect: () => Promise<AmqpConnection>,
  options: AmqpDestinationOptions,
): Destination {
  refuseUnknownNames('amqpDestination', options, { exchange: true, routingKey: true })
  if (typeof connect !== 'function') {
    throw new ConfigurationError(
      'Expected amqpDestination to get a function that connects, such as `() => connect(url)`.',
    )
  }
  const { exchange, routingKey } = options
  const ignore = (): void => undefined
  const connector = new Connector({
    ...{ source: connect, runtime: systemRuntime, onGone: ignore, onError: ignore },
    onBlocked: (reason) => {
      publisher.blocked = reason
    },
  })
  const publisher: Publisher = new Publisher({
    ...{ open: () => connector.openChannel(), runtime: systemRuntime, onError: ignore },
  })
  const publishOne = async (message: OutgoingMessage): Promise<Confirmation> => {
    const { contentType, id, payload, type } = message
    try {
      await publisher.publish({
        ...{
          of: message,
          kind: 'dead-letter',
          exchange,
          routingKey,
          content: Buffer.from(payload),
        },
        options: {
          ...{ contentType, messageId: id, type },
          headers: outgoingHeaders(message, 'cloudEvents:'),
        },
        remedy: `bind a queue to the exchange '${exchange}' with the routing key '${routingKey}'`,
      })
      return undefined
    } catch (error) {
      const isRefused = error instanceof PublishError && publisher.blocked === undefined
      return isRefused ? { refused: error } : { unknown: error }
    }
  }
  return {
    batch: BATCH,
    publish: (messages) => Promise.all(messages.map(publishOne)),
    close: async () => {
      await publisher.close()
      await connector.close()
    },
  }
}
