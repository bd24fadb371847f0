import { ConfigurationError, OncewardError, StoreUnavailableError } from '@onceward/core'
import { messageOf, NETWORK_CODES } from '@onceward/core/adapter'

/** Error names of DynamoDB and of the SDK, and what to do. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html */
const REMEDIES: Readonly<Record<string, string>> = {
  ResourceNotFoundException:
    'the table does not exist in the region and account of this client: create it, or correct `table`',
  AccessDeniedException:
    'the role may not do this: allow dynamodb:GetItem, PutItem and DeleteItem on the table',
  ProvisionedThroughputExceededException:
    'the table has too little capacity: raise it, or use capacity on demand',
  ThrottlingException: 'the table has too little capacity: raise it, or use capacity on demand',
  RequestLimitExceeded: 'the account has reached its limit of throughput',
  TransactionConflictException: 'a transaction of another program holds the item',
  ItemCollectionSizeLimitExceededException: 'the table must have no local index',
  CredentialsProviderError: 'the client has no credentials',
  UnrecognizedClientException: 'the credentials of the client are not valid',
  ExpiredTokenException: 'the credentials of the client have expired',
  ...Object.fromEntries(NETWORK_CODES.map((code) => [code, 'it cannot be reached'])),
}

/** Only other settings end these, so waiting does not help. */
const SETTINGS: ReadonlySet<string> = new Set(['ResourceNotFoundException', 'ValidationException'])

/** The SDK throws these before it sends a request, each time. They have no name of their own. */
const NO_REGION = /Region is missing|Region not accepted|expected `region` to be configured/

/** Any error of the client or of DynamoDB as a typed error, with the original as its cause. */
export function toStoreError(error: unknown, doing: string): OncewardError {
  if (OncewardError.is(error)) return error
  const remedy = namesOf(error)
    .map((name) => REMEDIES[name])
    .find((text) => text !== undefined)
  const message = messageOf(error).replace(/\.$/, '')
  const because = remedy === undefined ? message : `${remedy} (${message})`
  return new StoreUnavailableError(`DynamoDB failed at ${doing}: ${because}.`, { cause: error })
}

/** The error of a start: a {@link ConfigurationError} if only other settings end it. */
export function toStartError(error: unknown): unknown {
  const { cause } = Object(error) as { readonly cause?: unknown }
  if (!(error instanceof StoreUnavailableError) || cause === undefined) return error
  const message = messageOf(cause)
  if (/provided key element does not match the schema/i.test(message)) {
    return new ConfigurationError(
      'The table of dynamoLeases needs a partition key of type text with the name of `keyAttribute`, and no sort key.',
      { cause },
    )
  }
  const isSetting = NO_REGION.test(message) || namesOf(cause).some((name) => SETTINGS.has(name))
  return isSetting ? new ConfigurationError(error.message, { cause }) : error
}

/** Whether the condition of a write was not met. */
export const isConditionFailed = (error: unknown): boolean =>
  namesOf(error).includes('ConditionalCheckFailedException')

function namesOf(error: unknown): readonly string[] {
  const { name, code } = Object(error) as { readonly name?: unknown; readonly code?: unknown }
  return [name, code].filter((each) => typeof each === 'string')
}
