import type { Delivery } from '@onceward/core'
import {
  type Guard,
  readEnvelope,
  registerEnvelopeReader,
  withEnvelope,
} from '@onceward/core/adapter'
import { type Fields, fieldsOf, toDate } from './fields.ts'
import {
  createInvoke,
  type LambdaContext,
  recordsOf,
  type Settled,
  throwIfUnfinished,
  wrongEvent,
} from './invocation.ts'
import type { LambdaStreamOptions } from './options.ts'

/** What is used of an event of a stream. A pipe of EventBridge sends the records alone. */
export type LambdaStreamEvent = { readonly Records: readonly object[] } | readonly object[]

/** The first record of each shard that Lambda must send again, with everything after it. */
export interface StreamBatchResponse {
  batchItemFailures: { itemIdentifier: string }[]
}

/** A function for an event source mapping of a stream. */
export type LambdaStreamHandler = (
  event: LambdaStreamEvent,
  context?: LambdaContext,
) => Promise<StreamBatchResponse>

/**
 * The guard as a Lambda function behind a Kinesis data stream: `export const handler = lambdaKinesis(billing)`.
 *
 * Answers the sequence number of the first record of the shard that is not done, and Lambda sends that record and
 * everything after it again; what was done already is a duplicate then. Records of one partition key run in order, and
 * stop at the first one that is not done. **The event source mapping must have `ReportBatchItemFailures`**; without it
 * Lambda takes the whole batch for done, and failed records are lost.
 *
 * The body is the data of the record, and the place in the stream is the event key where the producer set none: see
 * {@link recordKey}.
 *
 * Lambda sends a failed record again at once, and each time is one of its retries. So the function waits within its
 * invocation until the record is due. `docs/lambda.md` has the settings of the mapping that fit: `MaximumRecordAgeInSeconds`
 * above the back-off of the guard, `BisectBatchOnFunctionError` and an on-failure destination.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the function for events of other sources.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-batchfailurereporting.html
 *
 * @example
 * ```ts
 * import { lambdaKinesis } from '@onceward/lambda'
 *
 * export const handler = lambdaKinesis(billing)
 * ```
 */
export function lambdaKinesis(
  guard: Guard,
  options: LambdaStreamOptions = {},
): LambdaStreamHandler {
  return lambdaStream('lambdaKinesis', guard, { options, toDelivery: fromKinesis })
}

/**
 * The guard as a Lambda function behind a stream of a DynamoDB table:
 * `export const handler = lambdaDynamoDbStream(billing)`.
 *
 * The payload is the record (`eventName`, `dynamodb.NewImage`, …), its `eventID` is the event key, and changes of one item
 * run in order. Everything else is as for {@link lambdaKinesis}.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the function for events of other sources.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html
 *
 * @example
 * ```ts
 * import { lambdaDynamoDbStream } from '@onceward/lambda'
 *
 * export const handler = lambdaDynamoDbStream(billing)
 * ```
 */
export function lambdaDynamoDbStream(
  guard: Guard,
  options: LambdaStreamOptions = {},
): LambdaStreamHandler {
  return lambdaStream('lambdaDynamoDbStream', guard, { options, toDelivery: fromDynamoDb })
}

interface Stream {
  readonly options: LambdaStreamOptions
  readonly toDelivery: (record: unknown) => Delivery
}

function lambdaStream(
  wrapper: 'lambdaKinesis' | 'lambdaDynamoDbStream',
  guard: Guard,
  { options, toDelivery }: Stream,
): LambdaStreamHandler {
  const invoke = createInvoke(wrapper, guard, options, 'at-once')
  const { partialResponses = true } = options
  return async (event, context) => {
    const settled = await invoke(recordsOf(wrapper, event).map(toDelivery), context)
    if (!partialResponses) throwIfUnfinished(settled)
    return { batchItemFailures: firstUnfinished(settled) }
  }
}

/** Lambda goes back to the lowest sequence number of the answer, and the records of a shard come in order. */
function firstUnfinished(settled: readonly Settled[]): StreamBatchResponse['batchItemFailures'] {
  const found = new Map<string, string>()
  for (const { delivery, isDone } of settled) {
    const [shard, sequence] = placeOf(delivery)
    if (!isDone && !found.has(shard)) found.set(shard, sequence)
  }
  return [...found.values()].map((itemIdentifier) => ({ itemIdentifier }))
}

/** Kinesis names the shard before the sequence number. A stream of DynamoDB does not say it: a batch is of one shard. */
function placeOf({ source: { position = '' } }: Delivery): readonly [string, string] {
  const at = position.lastIndexOf(':')
  return [position.slice(0, Math.max(0, at)), position.slice(at + 1)]
}

function fromKinesis(given: unknown): Delivery {
  const record = fieldsOf(given)
  // A pipe sends the fields of the record without the level in between.
  const kinesis = 'kinesis' in record ? fieldsOf(record['kinesis']) : record
  const { approximateArrivalTimestamp, data, partitionKey, sequenceNumber } = kinesis
  const { eventID, eventSource, eventSourceARN } = record
  const isRecord = [data, sequenceNumber, eventSourceARN].every((each) => typeof each === 'string')
  if (eventSource !== 'aws:kinesis' || !isRecord) {
    throw wrongEvent('lambdaKinesis', 'records of `aws:kinesis`')
  }
  const position = typeof eventID === 'string' ? eventID : String(sequenceNumber)
  return withEnvelope(
    {
      body: Buffer.from(data as string, 'base64'),
      headers: {},
      source: { broker: 'kinesis', queue: String(eventSourceARN), position },
      messageId: position,
      orderingKey: typeof partitionKey === 'string' ? partitionKey : undefined,
      producedAt: fromSeconds(approximateArrivalTimestamp),
      // Lambda does not say whether a record was sent before.
      redelivered: true,
      raw: record,
    },
    () => withData(record, ''),
  )
}

const withData = (record: Fields, data: string): Fields =>
  'kinesis' in record
    ? { ...record, kinesis: { ...fieldsOf(record['kinesis']), data } }
    : { ...record, data }

registerEnvelopeReader('kinesis', ({ body, envelope = new Uint8Array() }): object =>
  withData(readEnvelope(envelope) as Fields, Buffer.from(body).toString('base64')),
)

function fromDynamoDb(given: unknown): Delivery {
  const record = fieldsOf(given)
  const { dynamodb, eventID, eventSource, eventSourceARN } = record
  const { ApproximateCreationDateTime, Keys, SequenceNumber } = fieldsOf(dynamodb)
  const isRecord = [eventID, eventSourceARN, SequenceNumber].every(
    (each) => typeof each === 'string',
  )
  if (eventSource !== 'aws:dynamodb' || !isRecord) {
    throw wrongEvent('lambdaDynamoDbStream', 'records of `aws:dynamodb`')
  }
  return withEnvelope(
    {
      body: Buffer.from(JSON.stringify(record), 'utf8'),
      headers: {},
      source: {
        broker: 'dynamodb',
        queue: String(eventSourceARN),
        position: String(SequenceNumber),
      },
      contentType: 'application/json',
      messageId: String(eventID),
      orderingKey: JSON.stringify(Object.entries(fieldsOf(Keys)).toSorted()),
      producedAt: fromSeconds(ApproximateCreationDateTime),
      // Lambda does not say whether a record was sent before.
      redelivered: true,
      raw: record,
    },
    // The body holds the whole record.
    () => ({}),
  )
}

registerEnvelopeReader('dynamodb', ({ body }): unknown =>
  JSON.parse(Buffer.from(body).toString('utf8')),
)

/** Streams stamp records in seconds, with a fraction. */
const fromSeconds = (seconds: unknown): Date | undefined =>
  typeof seconds === 'number' ? toDate(Math.round(seconds * 1_000)) : undefined
