import { ConfigurationError } from '@onceward/core'
import {
  type BackoffRange,
  type ClassifiedError,
  classifierOf,
  kindsByName,
  messageOf,
  NETWORK_CODES,
} from '@onceward/core/adapter'

/**
 * What a failed call to NATS means.
 *
 * @see https://docs.nats.io/reference/reference-protocols/nats_api_reference
 */
export type BrokerErrorKind =
  | 'missing'
  | 'denied'
  | 'unready'
  | 'network'
  | 'closed'
  | 'too-large'
  | 'other'

export type BrokerError = ClassifiedError<BrokerErrorKind>

/** Pauses between two tries, milliseconds: from `baseMs`, doubled after each failure, up to `maxMs`; full jitter. */
export const BACKOFF: Readonly<Record<BrokerErrorKind, BackoffRange>> = {
  missing: { baseMs: 500, maxMs: 5_000 },
  denied: { baseMs: 1_000, maxMs: 30_000 },
  unready: { baseMs: 200, maxMs: 2_000 },
  network: { baseMs: 100, maxMs: 2_000 },
  closed: { baseMs: 1_000, maxMs: 30_000 },
  'too-large': { baseMs: 500, maxMs: 10_000 },
  other: { baseMs: 500, maxMs: 10_000 },
}

/** An error that JetStream answered, with its number, or the end of a pull request, with its status. */
export class JetStreamError extends Error {
  override readonly name = 'JetStreamError'
  readonly code: number

  constructor(message: string, code: number) {
    super(message)
    this.code = code
  }
}

/** There is no connection now, so nothing was sent. */
export class DisconnectedError extends Error {
  override readonly name = 'DisconnectedError'

  constructor() {
    super('the connection to NATS is interrupted')
  }
}

const KIND_OF_NAME: ReadonlyMap<string, BrokerErrorKind> = kindsByName({
  missing: [],
  denied: ['PermissionViolationError', 'AuthorizationError', 'UserAuthenticationExpiredError'],
  unready: ['NoRespondersError'],
  network: [
    'DisconnectedError',
    'TimeoutError',
    'ConnectionError',
    'ProtocolError',
    ...NETWORK_CODES,
  ],
  closed: ['ClosedConnectionError', 'DrainingConnectionError'],
  'too-large': [],
  other: [],
})

const KIND_OF_CODE: ReadonlyMap<string, BrokerErrorKind> = kindsByName({
  // Stream and consumer not found.
  missing: ['10059', '10014'],
  denied: ['10039', '10076'],
  // Statuses of a pull request, no leader, no quorum, no resources, and a stream that is full.
  unready: ['408', '409', '503', '10008', '10009', '10023', '10047', '10077', '10110'],
  network: [],
  closed: [],
  // Larger than the stream or the account takes.
  'too-large': ['10054', '10097'],
  other: [],
})

/** Classifies every value that a client may throw. */
export const classifyError: (error: unknown) => BrokerError = classifierOf((error) => {
  const text = messageOf(error)
  return { kind: kindOf(error, text), text }
})

function kindOf(error: unknown, text: string): BrokerErrorKind {
  if (/consumer deleted|consumer not found/i.test(text)) return 'missing'
  // The client compares the size before it sends.
  if (/max_payload|maximum payload/i.test(text)) return 'too-large'
  const { name, code, cause } = Object(error) as Partial<Record<'name' | 'code' | 'cause', unknown>>
  const own = KIND_OF_CODE.get(String(code)) ?? KIND_OF_NAME.get(String(code))
  const known = own ?? KIND_OF_NAME.get(String(name))
  // A failed request has the reason as its cause.
  if (known === undefined && cause !== undefined && cause !== error)
    return kindOf(cause, messageOf(cause))
  return known ?? (/disconnected/.test(text) ? 'network' : 'other')
}

export const connectionClosed = (): ConfigurationError =>
  new ConfigurationError(
    'The NATS connection of this consumer is closed, and a closed connection never comes back. The client closes it after ' +
      '10 failed reconnects, 20 s by default: give `connect({ maxReconnectAttempts: -1 })`. To shut down, drain the ' +
      'consumer before the connection.',
  )

export const streamMissing = (option: string, stream: string): ConfigurationError =>
  new ConfigurationError(
    `The stream of \`${option}\`, ${stream}, does not exist. Create it: \`nats stream add ${stream} --subjects '${stream.toLowerCase()}.>' ` +
      '--storage file --replicas 3 --discard new`, or correct the name, the account or the `domain`.',
  )

export const consumerMissing = (
  stream: string,
  consumer: string,
  ackWait: string,
): ConfigurationError =>
  new ConfigurationError(
    `The stream ${stream} has no consumer ${consumer}. Create it: \`nats consumer add ${stream} ${consumer} --pull --ack explicit ` +
      `--wait ${ackWait} --max-deliver=-1 --deliver all\`, or by \`jsm.consumers.add()\` with ` +
      "`{ durable_name, ack_policy: 'explicit', ack_wait, max_deliver: -1 }`.",
  )
