import {
  type BackoffRange,
  type ClassifiedError,
  classifierOf,
  isError,
  kindsByName,
  messageOf,
  NETWORK_CODES,
} from '@onceward/core/adapter'

/** What an error of kafkajs means. */
export type BrokerErrorKind =
  /** The generation is over; kafkajs rejoins when it sees the error itself. */
  | 'rebalance'
  | 'topic-missing'
  | 'too-large'
  /** The broker checks records and does not take this one: without a key for a compacted topic, for example. */
  | 'invalid-record'
  /** An idempotent producer of kafkajs that has failed numbers its records wrongly until the process ends. */
  | 'out-of-order'
  | 'denied'
  | 'credentials'
  /** The broker will never accept this consumer as it is configured. */
  | 'configuration'
  /** A record is compressed in a way that kafkajs cannot read as it is set up. */
  | 'codec'
  | 'network'
  | 'other'

export type BrokerError = ClassifiedError<BrokerErrorKind>

/** Pauses between two tries, milliseconds: from `baseMs`, doubled after each failure, up to `maxMs`; full jitter. */
export const BACKOFF: Readonly<Record<BrokerErrorKind, BackoffRange>> = {
  rebalance: { baseMs: 100, maxMs: 1_000 },
  'topic-missing': { baseMs: 500, maxMs: 5_000 },
  'too-large': { baseMs: 500, maxMs: 10_000 },
  'invalid-record': { baseMs: 500, maxMs: 10_000 },
  'out-of-order': { baseMs: 500, maxMs: 10_000 },
  denied: { baseMs: 1_000, maxMs: 30_000 },
  credentials: { baseMs: 1_000, maxMs: 30_000 },
  configuration: { baseMs: 1_000, maxMs: 30_000 },
  codec: { baseMs: 1_000, maxMs: 30_000 },
  network: { baseMs: 100, maxMs: 1_000 },
  other: { baseMs: 500, maxMs: 10_000 },
}

/** @see https://kafka.apache.org/protocol#protocol_error_codes */
const KIND_OF_NAME: ReadonlyMap<string, BrokerErrorKind> = kindsByName({
  rebalance: [
    'REBALANCE_IN_PROGRESS',
    'ILLEGAL_GENERATION',
    'UNKNOWN_MEMBER_ID',
    'NOT_COORDINATOR_FOR_GROUP',
    'NOT_COORDINATOR',
    'STALE_MEMBER_EPOCH',
    'FENCED_MEMBER_EPOCH',
  ],
  'topic-missing': [
    'UNKNOWN_TOPIC_OR_PARTITION',
    'UNKNOWN_TOPIC_ID',
    'KafkaJSTopicMetadataNotLoaded',
  ],
  'too-large': ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE'],
  'invalid-record': ['INVALID_RECORD', 'ERR_INVALID_RECORD'],
  'out-of-order': ['OUT_OF_ORDER_SEQUENCE_NUMBER', 'ERR_OUT_OF_ORDER_SEQUENCE_NUMBER'],
  denied: [
    'TOPIC_AUTHORIZATION_FAILED',
    'GROUP_AUTHORIZATION_FAILED',
    'CLUSTER_AUTHORIZATION_FAILED',
    'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
  ],
  credentials: [
    'KafkaJSSASLAuthenticationError',
    'SASL_AUTHENTICATION_FAILED',
    'UNSUPPORTED_SASL_MECHANISM',
    'ILLEGAL_SASL_STATE',
    'PLT_KFK_AUTHENTICATION',
  ],
  configuration: [
    'INVALID_SESSION_TIMEOUT',
    'INVALID_GROUP_ID',
    'INCONSISTENT_GROUP_PROTOCOL',
    'INVALID_TOPIC_EXCEPTION',
    'UNSUPPORTED_VERSION',
    'KafkaJSServerDoesNotSupportApiKey',
    'KafkaJSNotImplemented',
    'FENCED_INSTANCE_ID',
    'PLT_KFK_UNSUPPORTED_API',
  ],
  codec: ['PLT_KFK_UNSUPPORTED_COMPRESSION'],
  network: [
    'KafkaJSConnectionError',
    'KafkaJSConnectionClosedError',
    'KafkaJSRequestTimeoutError',
    'KafkaJSBrokerNotFound',
    'KafkaJSNoBrokerAvailableError',
    'KafkaJSGroupCoordinatorNotFound',
    'KafkaJSMetadataNotLoaded',
    'KafkaJSLockTimeout',
    'LEADER_NOT_AVAILABLE',
    'NOT_LEADER_FOR_PARTITION',
    'NOT_CONTROLLER',
    'GROUP_LOAD_IN_PROGRESS',
    'GROUP_COORDINATOR_NOT_AVAILABLE',
    'REQUEST_TIMED_OUT',
    'NOT_LEADER_OR_FOLLOWER',
    'COORDINATOR_LOAD_IN_PROGRESS',
    'COORDINATOR_NOT_AVAILABLE',
    'PLT_KFK_NETWORK',
    'PLT_KFK_TIMEOUT',
    'NETWORK_EXCEPTION',
    'TimeoutError',
    ...NETWORK_CODES,
  ],
})

/** What to look at if the message does not say it. kafkajs does not say why no broker named the coordinator of the group. */
const HINT_OF: ReadonlyMap<string, string> = new Map([
  [
    'OUT_OF_ORDER_SEQUENCE_NUMBER',
    '. An idempotent producer of kafkajs does not recover from it: restart the process, and create the producer without ' +
      '`idempotent: true`; guards drop the copies that its retries make',
  ],
  ['INVALID_RECORD', '. A compacted topic takes no record without a key'],
  ['NETWORK_EXCEPTION', '. Check that this process can connect to the brokers'],
  [
    'KafkaJSGroupCoordinatorNotFound',
    '. If the brokers can be reached, check that this client may Read and Describe the group',
  ],
])

/** How kafkajs, which does not know the code, says that a record is invalid. */
const UNKNOWN_CODE = /^Unknown error code 87$/

/** How @platformatic/kafka says that a topic is missing. */
const UNKNOWN_TOPIC = /^Unknown topic .+\.$/

/** What kafkajs says in place of the names of topics. */
const NO_NAMES = '[Topic authorization failed]'
const DENIED_HINT =
  '. kafkajs does not say which ones: check the rights of this client on each of them'

/** @platformatic/kafka wraps it in an error of the connection. */
const refusesCredentials = (error: object): boolean =>
  namesOf(error).some((name) => KIND_OF_NAME.get(name) === 'credentials')
const CREDENTIALS_HINT = '. Check the user, the password and the SASL mechanism of the client'

/** Classifies every value that a client may throw. */
export const classifyError: (error: unknown) => BrokerError = classifierOf((error) => {
  if (missingCodecIn(error) !== undefined) return { kind: 'codec', text: codecAdvice(error) }
  const chain = chainOf(error)
  const refusal = chain.find(refusesCredentials)
  if (refusal !== undefined) {
    const text = `${namesOf(refusal)[0]}: ${messageOf(refusal)}${CREDENTIALS_HINT}`
    return { kind: 'credentials', text }
  }
  const names = chain.flatMap(namesOf)
  const inner = innerOf(error)
  if (inner !== error) {
    const kind = names.map((each) => KIND_OF_NAME.get(each)).find((each) => each !== undefined)
    return { kind: kind ?? 'other', text: classifyError(inner).text }
  }
  const kinds = names.map((each) => KIND_OF_NAME.get(each))
  const [name = 'Error'] = names
  const message = messageOf(error)
  if (name !== 'Error' && UNKNOWN_TOPIC.test(message))
    return { kind: 'topic-missing', text: message }
  if (UNKNOWN_CODE.test(message)) return { kind: 'invalid-record', text: INVALID_RECORD }
  const hint = hintFor(message, chain) ?? HINT_OF.get(name) ?? ''
  const text = `${name}: ${message}${hint}`
  return { kind: kinds.find((kind) => kind !== undefined) ?? 'other', text }
})

const INVALID_RECORD =
  'INVALID_RECORD: the broker checks records and does not take this one. A compacted topic takes no record without a key'

/** What kafkajs leaves out of a message. */
function hintFor(message: string, chain: readonly object[]): string | undefined {
  if (message.endsWith(NO_NAMES)) return DENIED_HINT
  // It quotes the message of the socket's error, which is empty if the host has several addresses, as localhost has.
  if (!message.endsWith(': ')) return undefined
  const codes = chain.map((each) => textOf(each, 'code'))
  const brokers = chain.map((each) => textOf(each, 'broker'))
  const known = [codes, brokers].map((each) => each.find((text) => text !== undefined))
  return known.filter((text) => text !== undefined).join(' ')
}

/**
 * The error object that makes kafkajs rejoin, unwrapped; undefined for any other error.
 *
 * kafkajs recognizes this error by its `type`, which its own wrappers lose: a wrapped one ends the consumer for good
 * (brokers.md K6).
 */
export function rebalanceIn(error: unknown): Error | undefined {
  return chainOf(error).find(
    (each) => KIND_OF_NAME.get(typeOf(each) ?? '') === 'rebalance' && isError(each),
  ) as Error | undefined
}

/** Kafka does not let this client read or describe a topic. */
export const deniesTopic = (error: unknown): boolean =>
  chainOf(error).some((each) => typeOf(each) === 'TOPIC_AUTHORIZATION_FAILED')

/** The coordinator does not have the member, or not any more. */
export const isUnknownMember = (error: unknown): boolean =>
  chainOf(error).some((each) => typeOf(each) === 'UNKNOWN_MEMBER_ID')

/** The packages that the documentation of kafkajs names. */
const PACKAGE_OF: ReadonlyMap<string, string> = new Map([
  ['Snappy', 'kafkajs-snappy'],
  ['LZ4', 'kafkajs-lz4'],
  ['ZSTD', '@kafkajs/zstd'],
])

/**
 * The compression of a record that kafkajs has no codec for: its name in `CompressionTypes`. kafkajs says it in the text of
 * its error only, which is quoted here.
 */
export function missingCodecIn(error: unknown): string | undefined {
  const messages = chainOf(error).map((each) => textOf(each, 'message') ?? '')
  const found = messages.map((text) => /^(\w+) compression not implemented$/.exec(text))
  return found.find((match) => match !== null)?.[1]
}

/** What to do about {@link missingCodecIn}. */
export function codecAdvice(error: unknown): string {
  const codec = missingCodecIn(error) ?? ''
  return (
    `records are compressed with ${codec}, for which kafkajs has no codec. Install one, for example ` +
    `${PACKAGE_OF.get(codec) ?? 'a package for it'}, and register it: CompressionCodecs[CompressionTypes.${codec}] = ….`
  )
}

/** @platformatic/kafka answers with lists of errors, of its tries and of the parts of a request. The last one tells most. */
function innerOf(error: unknown): unknown {
  let inner = error
  for (let depth = 0; depth < 10; depth += 1) {
    const errors = isLists(inner) ? read(inner as object, 'errors') : undefined
    if (!Array.isArray(errors) || errors.length === 0) return inner
    inner = errors.at(-1)
  }
  return inner
}

const isLists = (error: unknown): boolean =>
  typeof error === 'object' &&
  error !== null &&
  ['PLT_KFK_MULTIPLE', 'PLT_KFK_RESPONSE'].includes(textOf(error, 'code') ?? '')

/** The error and its causes, outermost first, each with the errors that it lists. */
function chainOf(error: unknown): readonly object[] {
  const chain: object[] = []
  const follow = (each: unknown): void => {
    if (typeof each !== 'object' || each === null || chain.length >= 10) return
    chain.push(each)
    const listed = isLists(each) ? read(each, 'errors') : undefined
    if (Array.isArray(listed)) for (const one of listed.toReversed()) follow(one)
    follow(read(each, 'cause'))
  }
  follow(error)
  return chain
}

/** The protocol's error code comes first, because it is the most specific. */
function namesOf(error: object): readonly string[] {
  const names = ['apiId', 'type', 'name', 'code'].map((name) => textOf(error, name))
  return names.filter((name) => name !== undefined && name !== '') as readonly string[]
}

const typeOf = (error: object): string | undefined => textOf(error, 'type')

function textOf(error: object, name: string): string | undefined {
  const value = read(error, name)
  return typeof value === 'string' ? value : undefined
}

/** The causes of an error are anything that somebody threw, so reading one may throw. */
function read(error: object, name: string): unknown {
  try {
    return Reflect.get(error, name)
  } catch {
    return undefined
  }
}
