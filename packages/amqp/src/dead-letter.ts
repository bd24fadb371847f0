import type { Delivery } from '@onceward/core'
import type { DeadLetterPlace } from '@onceward/core/adapter'
import { type DeadLetter, deadLetterHeaders, type Publish } from '@onceward/core/ports'
import type { ConsumeMessage } from 'amqplib'
import type { Outgoing, Publisher } from './clients/publisher.ts'
import {
  amqpMessage,
  bareOptions,
  copyOptions,
  deferralsOf,
  type Received,
  storedOptions,
} from './delivery.ts'
import { classifyError, PublishError, UnroutableError } from './errors.ts'
import type { DeadLetterTarget, Settings } from './options.ts'

export function placeOf(
  publisher: Publisher,
  { deadLetter }: Settings,
  hasInbox: boolean,
): DeadLetterPlace {
  if (deadLetter === undefined) return { kind: 'record' }
  if (deadLetter === 'dlx') return { kind: 'broker' }
  return { kind: 'publish', publish: createPublisher(publisher, deadLetter, hasInbox) }
}

/** Publishes dead letters; resolves once the broker has confirmed that a queue holds the message. */
export function createPublisher(
  publisher: Pick<Publisher, 'publish'>,
  target: DeadLetterTarget,
  hasInbox: boolean,
): Publish {
  return async (letter) => {
    const of = identityOf(letter, hasInbox)
    for (const form of FORMS) {
      try {
        return await publisher.publish({ ...deadLetterMessage(letter, target, form), of })
      } catch (error) {
        if (form === 'reasons-alone' || !isTooLarge(error)) throw error
      }
    }
  }
}

/**
 * The headers that a dead letter may have. They are tried in this order. The headers that say why the message is dead
 * may not fit beside its own, and its own may be nested so deeply that amqplib can read but not write them.
 */
const FORMS = ['reasons', 'bare', 'reasons-alone'] as const

/**
 * Sends a message that was in a delay queue to the dead-letter exchange of its queue, under its own routing key. It came
 * back under the name of its queue, and if it is rejected, the broker looks for a queue by that name: where none is bound
 * by it, the message is dropped.
 *
 * Returns false if it is to be rejected: it has its own key, no queue is bound by that, or it may not be sent. Rejects
 * with other errors of the publisher.
 */
export async function sentByOwnKey(
  publisher: Pick<Publisher, 'publish'>,
  exchange: string | undefined,
  { delivery, message }: Pick<Received, 'delivery' | 'message'>,
): Promise<boolean> {
  if (exchange === undefined || deferralsOf(message) === 0) return false
  const original = delivery.raw as ConsumeMessage
  const { routingKey } = original.fields
  try {
    await publisher.publish({
      kind: 'dead-letter',
      of: message,
      ...{ exchange, routingKey, content: message.content, options: copyOptions(original, {}) },
      remedy: `bind a queue to the exchange '${exchange}'`,
    })
    return true
  } catch (error) {
    const isRefused = classifyError(error).kind === 'denied' || isTooLarge(error)
    if (isRefused || error instanceof UnroutableError) return false
    throw error
  }
}

/** One that was replayed and is dead again is another one. Without an inbox only the received message has an identity. */
function identityOf(letter: DeadLetter, hasInbox: boolean): object | string {
  const { ref, attempts, lastFailedAt, delivery } = letter
  const { raw } = delivery
  if (!hasInbox && typeof raw === 'object' && raw !== null) return raw
  return JSON.stringify([ref, attempts, lastFailedAt])
}

/** The headers of a message must fit into amqplib's buffer, and their depth into the stack. */
function isTooLarge(error: unknown): boolean {
  const cause = error instanceof PublishError ? error.cause : error
  return cause instanceof RangeError
}

/** The content, the properties and the headers that the publisher gave a message, as far as a copy may have them. */
export function originalMessage(delivery: Delivery): Pick<Outgoing, 'content' | 'options'> {
  const message = amqpMessage(delivery)
  return {
    content: message?.content ?? Buffer.from(delivery.body),
    options: message === undefined ? storedOptions(delivery, {}) : bareOptions(message),
  }
}

const OPTIONS: Record<(typeof FORMS)[number], typeof copyOptions> = {
  reasons: copyOptions,
  bare: bareOptions,
  'reasons-alone': ({ properties, ...message }, why) => ({
    ...bareOptions({ ...message, properties: { ...properties, headers: {} } }),
    headers: why,
  }),
}

/** The original message with its properties and headers, and with the headers that say why it is dead. */
export function deadLetterMessage(
  letter: DeadLetter,
  target: DeadLetterTarget,
  form: (typeof FORMS)[number] = 'reasons',
): Omit<Outgoing, 'of'> {
  const { delivery } = letter
  const message = amqpMessage(delivery)
  const why = deadLetterHeaders(letter)
  const options = message === undefined ? storedOptions(delivery, why) : OPTIONS[form](message, why)
  return {
    kind: 'dead-letter',
    content: message?.content ?? Buffer.from(delivery.body),
    options,
    ...(form === 'bare' ? { isBare: true } : {}),
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
