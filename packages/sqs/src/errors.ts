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
 * What a failed call to SQS means.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
 */
export type BrokerErrorKind =
  | 'queue-missing'
  | 'denied'
  | 'credentials'
  | 'throttled'
  | 'network'
  | 'handle'
  | 'too-large'
  | 'other'

export type BrokerError = ClassifiedError<BrokerErrorKind>

/** Pauses between two tries, milliseconds: from `baseMs`, doubled after each failure, up to `maxMs`; full jitter. */
export const BACKOFF: Readonly<Record<BrokerErrorKind, BackoffRange>> = {
  'queue-missing': { baseMs: 1_000, maxMs: 5_000 },
  denied: { baseMs: 1_000, maxMs: 30_000 },
  credentials: { baseMs: 1_000, maxMs: 30_000 },
  throttled: { baseMs: 500, maxMs: 10_000 },
  network: { baseMs: 100, maxMs: 2_000 },
  handle: { baseMs: 500, maxMs: 10_000 },
  'too-large': { baseMs: 500, maxMs: 10_000 },
  other: { baseMs: 500, maxMs: 10_000 },
}

const KIND_OF_NAME: ReadonlyMap<string, BrokerErrorKind> = kindsByName({
  'queue-missing': [
    'QueueDoesNotExist',
    'QueueDeletedRecently',
    'NonExistentQueue',
    'InvalidAddress',
    'ResourceNotFoundException',
  ],
  denied: [
    'AccessDenied',
    'AccessDeniedException',
    'KmsAccessDenied',
    'NotAuthorized',
    'OptInRequired',
  ],
  credentials: [
    'ExpiredToken',
    'ExpiredTokenException',
    'InvalidClientTokenId',
    'UnrecognizedClientException',
    'SignatureDoesNotMatch',
    'InvalidSignatureException',
    'IncompleteSignature',
    'MissingAuthenticationToken',
    'MissingAuthenticationTokenException',
    'InvalidSecurity',
    'RequestExpired',
    'AuthFailure',
    'CredentialsProviderError',
    'TokenProviderError',
  ],
  throttled: [
    'RequestThrottled',
    'Throttling',
    'ThrottlingException',
    'TooManyRequestsException',
    'RequestLimitExceeded',
    'KmsThrottled',
    'OverLimit',
    'SlowDown',
  ],
  network: [
    'TimeoutError',
    'AbortError',
    'NetworkingError',
    ...NETWORK_CODES,
    'ServiceUnavailable',
    'InternalError',
    'InternalFailure',
  ],
  handle: ['ReceiptHandleIsInvalid', 'MessageNotInflight'],
  'too-large': [
    'MessageTooLong',
    'BatchRequestTooLong',
    'RequestTooLarge',
    // Also of other requests that can never succeed, but of a message that SQS once had only for its size.
    'InvalidParameterValue',
    'InvalidParameterValueException',
  ],
})

/** Classifies every value that a client may throw. */
export const classifyError: (error: unknown) => BrokerError = classifierOf((error) => {
  const names = namesOf(error)
  const kind = names.map((name) => KIND_OF_NAME.get(name)).find((found) => found !== undefined)
  const text = `${names[0] ?? 'Error'}: ${messageOf(error)}`
  const status = kind === undefined ? statusOf(error) : undefined
  if (status === undefined) return { kind: kind ?? 'other', text }
  return { kind: kindOfStatus(status), text: `${text} (HTTP ${status})` }
})

/** What an answer means whose error has no name that is known: a proxy may answer for SQS, in HTML or with nothing. */
function kindOfStatus(status: number): BrokerErrorKind {
  if (status === 429) return 'throttled'
  return status >= 500 ? 'network' : 'other'
}

function statusOf(error: unknown): number | undefined {
  const { $metadata } = Object(error) as { readonly $metadata?: unknown }
  const { httpStatusCode } = Object($metadata) as { readonly httpStatusCode?: unknown }
  return typeof httpStatusCode === 'number' ? httpStatusCode : undefined
}

function namesOf(error: unknown): string[] {
  if (typeof error !== 'object' || error === null) return []
  const names = [Reflect.get(error, 'name'), Reflect.get(error, 'Code'), Reflect.get(error, 'code')]
  // The query protocol prefixes its codes: AWS.SimpleQueueService.NonExistentQueue.
  return names
    .filter((name) => typeof name === 'string' && name !== '')
    .map((name: string) => name.slice(name.lastIndexOf('.') + 1))
}

export function queueMissing(option: string, queueUrl: string): ConfigurationError {
  return new ConfigurationError(
    `The queue of \`${option}\`, ${queueUrl}, does not exist in the region and account of this ` +
      'client. Create it, or correct the URL.',
  )
}

/** The client of the SDK throws these before it sends a request, each time. They have no name of their own. */
const NO_REGION =
  /^Error: (Region is missing|Region not accepted|expected `region` to be configured)/

/** The problem of a client that has no region, or none that can be one. Undefined for every other error. */
export function regionMissing(error: unknown): ConfigurationError | undefined {
  const [, reason] = NO_REGION.exec(classifyError(error).text) ?? []
  if (reason === undefined) return undefined
  return new ConfigurationError(
    `The SQS client has no region that it can use (${reason}). Set \`region\` of the client, such as ` +
      "`new SQSClient({ region: 'eu-west-1' })`, or AWS_REGION in the environment of the process.",
    { cause: error },
  )
}
