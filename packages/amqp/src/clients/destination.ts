import {
  ConfigurationError,
  type Confirmation,
  type Destination,
  type OutgoingMessage,
} from '@onceward/core'
import { CallTimeoutError, outgoingHeaders, refuseUnknownNames } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import type { AmqpConnection } from '../client.ts'
import { classifyError, PublishError, UnroutableError } from '../errors.ts'
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
 * confirm: one that reaches no queue stays in the outbox. While all of them reach none, no attempt is counted.
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
    const list = LISTS.find((name) => name in message.headers)
    if (list !== undefined) return { refused: new Error(`${NO_LIST} Do not send "${list}".`) }
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
      return answerTo(error, publisher.blocked !== undefined)
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

/** RabbitMQ reads them as lists, and closes the channel if they are text: with it go the messages beside this one. */
const LISTS = ['CC', 'BCC'] as const
const NO_LIST =
  'RabbitMQ takes the headers CC and BCC as lists of routing keys only, and headers of the outbox are text.'

function answerTo(error: unknown, isBlocked: boolean): Confirmation {
  if (isBlocked || error instanceof UnroutableError) return { down: error }
  // The client did not publish it: it is too large, or cannot be written as it is.
  if (error instanceof PublishError && error.cause !== undefined) return { refused: error }
  // A precondition that failed closes the channel, whichever of its messages it was.
  const isUnclear = error instanceof CallTimeoutError || classifyError(error).kind === 'refused'
  return isUnclear ? { unknown: error } : { down: error }
}
