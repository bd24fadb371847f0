import { type DeadLetter, deadLetterHeaders, type Publish } from '@onceward/core'
import type { DeadLetterPlace } from '@onceward/core/adapter'
import type { Outgoing, Publisher } from './clients/amqplib.ts'
import { amqpMessage, copyOptions, storedOptions } from './delivery.ts'
import type { DeadLetterTarget, Settings } from './options.ts'

export function placeOf(publisher: Publisher, { deadLetter }: Settings): DeadLetterPlace {
  if (deadLetter === undefined) return { kind: 'record' }
  if (deadLetter === 'dlx') return { kind: 'broker' }
  return { kind: 'publish', publish: createPublisher(publisher, deadLetter) }
}

/** Publishes dead letters; resolves once the broker has confirmed that a queue holds the message. */
export function createPublisher(
  publisher: Pick<Publisher, 'publish'>,
  target: DeadLetterTarget,
): Publish {
  return (letter) => publisher.publish(deadLetterMessage(letter, target))
}

/** The original message with its properties and headers, and with the headers that give the reason. */
export function deadLetterMessage(letter: DeadLetter, target: DeadLetterTarget): Outgoing {
  const { delivery } = letter
  const message = amqpMessage(delivery)
  const why = deadLetterHeaders(letter)
  return {
    ...(message === undefined
      ? { content: Buffer.from(delivery.body), options: storedOptions(delivery, why) }
      : { content: message.content, options: copyOptions(message, why) }),
    ...('queue' in target
      ? {
          exchange: '',
          routingKey: target.queue,
          remedy: `declare the queue of \`deadLetter\`, '${target.queue}'`,
        }
      : {
          ...target,
          remedy: `declare the exchange of \`deadLetter\`, '${target.exchange}', and bind a queue to it`,
        }),
  }
}
