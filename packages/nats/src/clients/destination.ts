import type { Confirmation, Destination, OutgoingMessage } from '@onceward/core'
import { outgoingHeaders, quoted, refuseProblems, refuseUnknownNames } from '@onceward/core/adapter'
import type { NatsClient } from '../client.ts'
import { MESSAGE_ID } from '../delivery.ts'
import { classifyError } from '../errors.ts'
import { isSubject } from '../options.ts'
import { refuseOtherNatsClient } from './connection.ts'
import { publish } from './nats-api.ts'

/** Options of {@link natsDestination}. */
export interface NatsDestinationOptions {
  /** The subject, or what makes it of a message, such as `({ key }) => 'orders.' + key`. A stream must take it. */
  readonly subject: string | ((message: OutgoingMessage) => string)
  /** The stream that must take it: any other refuses it. */
  readonly stream?: string | undefined
}

const BATCH = 100
const PUBLISH_MS = 10_000

/**
 * A stream as a destination of the outbox's relay. The id of a message is its `Nats-Msg-Id`, so a stream drops what the
 * relay sends twice within its duplicate window. The stream's answer is the confirmation; how durable that is depends on
 * `sync_interval` and the replicas.
 *
 * @param connection - Of @nats-io/transport-node.
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { connect } from '@nats-io/transport-node'
 * import { natsDestination } from '@onceward/nats'
 * import { startRelay } from '@onceward/postgres/outbox'
 *
 * const connection = await connect({ maxReconnectAttempts: -1 })
 * const payments = natsDestination(connection, { subject: 'payments' })
 * const relay = await startRelay({ pool, destinations: { payments } })
 * await relay.stopped
 * ```
 */
export function natsDestination(
  connection: NatsClient,
  options: NatsDestinationOptions,
): Destination {
  refuseOtherNatsClient('natsDestination', connection)
  refuseUnknownNames('natsDestination', options, { subject: true, stream: true })
  const { subject, stream } = options
  refuseProblems(
    typeof subject === 'function' || isSubject(subject)
      ? []
      : [`Expected \`subject\` to be a subject without wildcards, got ${quoted(subject)}.`],
  )
  return {
    batch: BATCH,
    publish: (messages) =>
      Promise.all(messages.map((message) => confirmed(connection, message, { subject, stream }))),
  }
}

async function confirmed(
  connection: NatsClient,
  message: OutgoingMessage,
  { subject, stream }: NatsDestinationOptions,
): Promise<Confirmation> {
  let target: string
  try {
    target = typeof subject === 'function' ? subject(message) : subject
  } catch (error) {
    return { refused: error }
  }
  if (!isSubject(target)) {
    return { refused: new Error('`subject` did not answer a subject without wildcards.') }
  }
  const own = Object.entries(outgoingHeaders(message, 'ce-'))
  const headers = [
    ...own.filter(([name]) => name.toLowerCase() !== MESSAGE_ID.toLowerCase()),
    [MESSAGE_ID, message.id] as const,
  ]
  try {
    await publish(
      connection,
      { subject: target, data: message.payload, headers, stream },
      PUBLISH_MS,
    )
    return undefined
  } catch (error) {
    const { kind } = classifyError(error)
    if (kind === 'too-large') return { refused: error }
    return kind === 'network' ? { unknown: error } : { down: error }
  }
}
