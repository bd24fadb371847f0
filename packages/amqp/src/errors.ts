import { ConfigurationError } from '@onceward/core'
import {
  type BackoffRange,
  type ClassifiedError,
  classifierOf,
  isError,
  messageOf,
  NETWORK_CODES,
  shown,
} from '@onceward/core/adapter'

/**
 * The meaning of a failed call to the broker.
 *
 * @see https://www.rabbitmq.com/docs/channels#error-handling
 */
export type BrokerErrorKind =
  | 'missing'
  | 'unavailable'
  | 'denied'
  | 'locked'
  | 'refused'
  | 'network'
  | 'cancelled'
  | 'other'

export type BrokerError = ClassifiedError<BrokerErrorKind>

/** Pauses between two tries, milliseconds: from `baseMs`, doubled after each failure, up to `maxMs`; full jitter. */
export const BACKOFF: Readonly<Record<BrokerErrorKind, BackoffRange>> = {
  missing: { baseMs: 500, maxMs: 5_000 },
  unavailable: { baseMs: 500, maxMs: 5_000 },
  denied: { baseMs: 1_000, maxMs: 30_000 },
  locked: { baseMs: 1_000, maxMs: 30_000 },
  refused: { baseMs: 500, maxMs: 30_000 },
  network: { baseMs: 200, maxMs: 5_000 },
  cancelled: { baseMs: 200, maxMs: 5_000 },
  other: { baseMs: 500, maxMs: 30_000 },
}

/** Reply codes of AMQP 0-9-1 and codes of sockets. */
const KIND_OF_CODE: ReadonlyMap<unknown, BrokerErrorKind> = new Map<unknown, BrokerErrorKind>([
  [403, 'denied'],
  [404, 'missing'],
  [405, 'locked'],
  [406, 'refused'],
  [320, 'network'],
  ...NETWORK_CODES.map((code) => [code, 'network'] as const),
])

/** Errors without a code: those of amqplib, and our own. */
const KIND_OF_TEXT: readonly (readonly [RegExp, BrokerErrorKind])[] = [
  [/ACCESS.REFUSED/, 'denied'],
  [/connection closed|channel closed|channel ended|socket closed|unexpected close/i, 'network'],
  [/heartbeat timeout/i, 'network'],
  [/consumer was cancelled/, 'cancelled'],
  [/does not exist on this virtual host/, 'missing'],
]

/** With the code of a missing queue the server also reports one that is there and cannot be used now. */
const UNAVAILABLE = /NOT_FOUND - (?:home node '|failed to perform operation on )/
const STOPPED = /has crashed and failed to restart|is stopped by supervisor/

const isUnavailable = (text: string): boolean =>
  UNAVAILABLE.test(text) || (text.includes('NOT_FOUND - queue ') && STOPPED.test(text))

/** The broker ended the consumer: its queue was deleted, its node failed over, or a delivery was held too long. */
export class CancelledError extends Error {
  override readonly name = 'CancelledError'

  constructor(queue: string, remedy = '') {
    super(
      `the consumer was cancelled by the server: ${queue} was deleted, moved, or timed it out${remedy}`,
    )
  }
}

/** A wrap cannot consume again without its user. */
export const WRAP_REMEDY: string =
  '. No message comes any more: declare the queue if it is gone and call `channel.consume(queue, wrapped)` again, or ' +
  'end the process. `consumeAmqp` consumes again automatically'

/** The channel of a wrap closed; only its user can open another. */
export class WrapClosedError extends Error {
  override readonly name = 'WrapClosedError'

  constructor(queue: string) {
    super(
      `the channel of the wrapped consumer of ${queue} closed: no message comes any more. Open another, and wrap and ` +
        'consume again, or end the process. `consumeAmqp` opens another automatically',
    )
  }
}

/** A message that the broker did not accept, or that reached no queue. */
export class PublishError extends Error {
  override readonly name = 'PublishError'

  /** The broker confirmed a message although it reached no queue (A2). */
  static unroutable(
    {
      exchange,
      routingKey,
      remedy,
    }: { readonly exchange: string; readonly routingKey: string; readonly remedy: string },
    replyText: string,
  ): PublishError {
    return new UnroutableError(
      `no queue took the message for exchange '${exchange}', routing key '${routingKey}' (${replyText}); ${remedy}`,
    )
  }
}

/** A message that reached no queue. Its name is that of a {@link PublishError}, as which it is reported. */
export class UnroutableError extends PublishError {}

/** Classifies every value that a client may throw. */
export const classifyError: (error: unknown) => BrokerError = classifierOf((error) => {
  const text = isError(error) ? `${error.name}: ${messageOf(error)}` : messageOf(error)
  const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  const byText = KIND_OF_TEXT.find(([pattern]) => pattern.test(text))?.[1]
  return {
    kind:
      code === 404 && isUnavailable(text)
        ? 'unavailable'
        : (KIND_OF_CODE.get(code) ?? byText ?? 'other'),
    text,
  }
})

/** Whether the error says that the connection is closed for good. */
export function isConnectionClosed(error: unknown): boolean {
  return /^\w+: Connection clos(ed|ing)/.test(classifyError(error).text)
}

export function queueMissing(option: string, queue: string): ConfigurationError {
  return new ConfigurationError(
    `The queue of \`${option}\`, '${shown(queue)}', does not exist on this virtual host. Declare it, or correct the name.`,
  )
}

export function exchangeMissing(option: string, exchange: string): ConfigurationError {
  return new ConfigurationError(
    `The exchange of \`${option}\`, '${shown(exchange)}', does not exist on this virtual host: messages sent there would ` +
      'be dropped. Declare it, or correct the name.',
  )
}

export function connectionGone(error: unknown): ConfigurationError {
  const cause = error === undefined ? 'closed' : classifyError(error).text
  return new ConfigurationError(
    `The AMQP connection given to consumeAmqp is over (${cause}), and only its owner can open another. Give a ` +
      'function, `() => amqp.connect(url)`, which is called again after each loss, or connect with `recovery`.',
    { cause: error },
  )
}
