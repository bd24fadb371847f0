import { afterAnswer } from '../concurrency/maybe-async.ts'
import type { Delivery } from '../model/delivery.ts'
import { ConfigurationError, InvalidPayloadError, RetryableError } from '../model/errors.ts'
import type { Resolver } from '../options/options.ts'
import { type Decode, type Unwrap, withTraits } from './envelope-traits.ts'
import { type Fields, fieldAsJson, fieldsOf, isText, jsonOf, parsedIf } from './json-fields.ts'
import { ownResolver } from './resolvers.ts'

/**
 * For the option `decode`: the payload is the `message` of a MassTransit envelope, and the event key is its `messageId`
 * unless you set `eventKey`. A copy with another `sentTime` or `host` is a duplicate. A body without an envelope
 * (`UseRawJsonSerializer`) is decoded as it is, and its key is the header `MessageId`.
 *
 * @param decode - Decodes the JSON text of the message. @defaultValue JSON
 * @see https://masstransit.io/architecture/interoperability
 *
 * @example
 * ```ts
 * import { unwrapMassTransit } from '@onceward/core'
 *
 * const options = { consumer: 'billing', decode: unwrapMassTransit<{ orderId: string }>() }
 * ```
 */
export function unwrapMassTransit<Decoded = unknown>(decode?: Decode<Decoded>): Decode<Decoded> {
  const unwrap: Decode<Decoded> = (body, delivery) => {
    const envelope = readMassTransit(body)
    if (envelope === undefined) return decoded(body, delivery, decode)
    // The message is parsed already.
    return decode === undefined
      ? (envelope['message'] as Decoded)
      : decode(fieldAsJson(body, 'message'), delivery)
  }
  return withTraits(unwrap, { eventKey: massTransitKey() })
}

/** The `messageId` of a MassTransit envelope, or the header `MessageId` of a message that was sent without an envelope. */
export function massTransitKey(): Resolver<unknown, string> {
  return ownResolver(({ body, headers }) => {
    const envelope = readMassTransit(body)
    if (envelope !== undefined) return envelope['messageId'] as string
    return Object.hasOwn(headers, 'messageid') ? headers['messageid'] : undefined
  })
}

function readMassTransit(body: Uint8Array): Fields | undefined {
  const envelope = parsedIf(body, '"messageType"')
  const { message, messageId, messageType } = envelope
  return Array.isArray(messageType) && isText(messageId) && message !== undefined
    ? envelope
    : undefined
}

/**
 * For the option `decode`: the payload is the `data` of a CloudEvent, in the structured mode (the event is a JSON body)
 * and in the binary mode (the data is the body). The event key is `source` and `id` in both: see {@link cloudEventKey}.
 *
 * `data_base64` is decoded like a body: as JSON where `datacontenttype` is JSON or left out, else it stays bytes.
 *
 * @param decode - Decodes the bytes of the data. @defaultValue JSON
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md#31-handling-of-data
 */
export function unwrapCloudEvent<Decoded = unknown>(): Unwrap<Decoded>
export function unwrapCloudEvent<Decoded>(decode: Decode<Decoded>): Decode<Decoded>
export function unwrapCloudEvent<Decoded>(decode?: Decode<Decoded>): Decode<Decoded> {
  return (body, delivery) => {
    const event = readCloudEvent(body)
    if (event === undefined) return decoded(body, delivery, decode)
    const { data, data_base64: base64 } = event
    if (typeof base64 === 'string') {
      const bytes = new Uint8Array(Buffer.from(base64, 'base64'))
      if (decode === undefined && !isJsonData(event)) return bytes as Decoded
      return decoded(bytes, delivery, decode)
    }
    if (decode === undefined) return (data ?? null) as Decoded
    if (data === undefined) return decode(new Uint8Array(), delivery)
    const isText = typeof data === 'string' && !isJsonData(event)
    return decode(isText ? Buffer.from(data) : fieldAsJson(body, 'data'), delivery)
  }
}

const JSON_TYPE = /^[^/;]+\/(?:[^;]+\+)?json\s*(?:;|$)/i

const isJsonData = ({ datacontenttype: type }: Fields): boolean =>
  typeof type !== 'string' || JSON_TYPE.test(type)

/** A CloudEvent of the structured mode; undefined for any other body. */
export function readCloudEvent(body: Uint8Array): Fields | undefined {
  const event = parsedIf(body, '"specversion"')
  return isText(event['specversion']) ? event : undefined
}

/** A message in the wire format of Confluent's serializers. */
export interface ConfluentMessage {
  /** The id of the schema in the registry. */
  readonly schemaId: number
  /** What follows the id. In Protobuf, the message indexes come first. */
  readonly bytes: Uint8Array
  /** The whole body, for clients of a registry that read the id themselves. */
  readonly body: Uint8Array
}

const WIRE_MAGIC = 0
const WIRE_PREFIX_BYTES = 5

/**
 * For the option `decode`: takes the wire format of Confluent's serializers apart and hands the message to the client of
 * your schema registry. A body in another format is dead-lettered at once, and while the registry is down messages are
 * retried. A tombstone (an empty body) is null.
 *
 * @param decode - Reads the message. A promise is awaited, within `deadlineMs`.
 * @see https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
 *
 * @example
 * ```ts
 * import { unwrapConfluent } from '@onceward/core'
 *
 * declare const schemaOf: (id: number) => Promise<{ fromBuffer(bytes: Buffer): unknown }>
 *
 * const decode = unwrapConfluent(async ({ schemaId, bytes }) =>
 *   (await schemaOf(schemaId)).fromBuffer(Buffer.from(bytes)),
 * )
 * ```
 */
export function unwrapConfluent<Decoded>(
  decode: (message: ConfluentMessage, delivery: Delivery) => Decoded | Promise<Decoded>,
): Decode<Decoded | null> {
  requireFunction('unwrapConfluent', decode)
  return (body, delivery) => {
    if (body.byteLength === 0) return null
    if (body.byteLength < WIRE_PREFIX_BYTES || body[0] !== WIRE_MAGIC) {
      throw new InvalidPayloadError(
        'The body is not in the wire format of Confluent: it must begin with a zero byte and the four bytes of a schema id. Check the serializer of the producer.',
      )
    }
    const schemaId = new DataView(body.buffer, body.byteOffset).getUint32(1)
    return decode({ schemaId, bytes: body.subarray(WIRE_PREFIX_BYTES), body }, delivery)
  }
}

/** Where the extended client of SQS has put a body that was too large for the queue. */
export interface S3Pointer {
  readonly bucket: string
  readonly key: string
}

const POINTERS: readonly unknown[] = [
  'software.amazon.payloadoffloading.PayloadS3Pointer',
  'com.amazon.sqs.javamessaging.MessageS3Pointer',
]

/**
 * For the option `decode`: the payload is in the S3 object to which the SQS (or SNS) extended client points. A body that
 * is no pointer is decoded as it is. If `fetch` fails, or finds no object yet, the message is retried.
 *
 * Give messages a key that does not depend on the body, such as an `idempotency-key` attribute: each send makes an object
 * of its own. The object is not deleted; let a lifecycle rule of the bucket do it.
 *
 * @param fetch - Gets the object: its bytes or its text. Undefined: it is not there yet.
 * @param decode - Decodes what the object holds. @defaultValue JSON
 *
 * @example
 * ```ts
 * import { unwrapS3Pointer } from '@onceward/core'
 *
 * // With the S3 client of the AWS SDK: `GetObjectCommand`, then `Body.transformToByteArray()`.
 * declare const readObject: (bucket: string, key: string) => Promise<Uint8Array | undefined>
 *
 * const decode = unwrapS3Pointer(({ bucket, key }) => readObject(bucket, key))
 * ```
 */
export function unwrapS3Pointer<Decoded = unknown>(
  fetch: (
    pointer: S3Pointer,
  ) => Uint8Array | string | undefined | Promise<Uint8Array | string | undefined>,
  decode?: Decode<Decoded>,
): Decode<Decoded> {
  requireFunction('unwrapS3Pointer', fetch)
  return (body, delivery) => {
    const pointer = readS3Pointer(body)
    if (pointer === undefined) return decoded(body, delivery, decode)
    return afterAnswer(fetch(pointer), (found: unknown) => {
      if (found === undefined) {
        throw new RetryableError(
          'The S3 object of the message is not there yet. It is tried again.',
        )
      }
      if (typeof found === 'string') return decoded(Buffer.from(found), delivery, decode)
      if (found instanceof Uint8Array) return decoded(found, delivery, decode)
      throw new RetryableError(
        `Expected \`fetch\` of unwrapS3Pointer to return bytes or a text, got ${typeof found}. Read the stream of the object first: \`Body.transformToByteArray()\`.`,
      )
    }) as Decoded | Promise<Decoded>
  }
}

function readS3Pointer(body: Uint8Array): S3Pointer | undefined {
  const [kind, pointer] = Object.values(parsedIf(body, '"s3BucketName"'))
  const { s3BucketName: bucket, s3Key: key } = fieldsOf(pointer)
  return POINTERS.includes(kind) && isText(bucket) && isText(key) ? { bucket, key } : undefined
}

/** By the user's decoder, or as JSON. */
function decoded<Decoded>(
  body: Uint8Array,
  delivery: Delivery,
  decode: Decode<Decoded> | undefined,
): Decoded | Promise<Decoded> {
  return decode === undefined ? (jsonOf(body) as Decoded) : decode(body, delivery)
}

function requireFunction(caller: string, value: unknown): void {
  if (typeof value === 'function') return
  throw new ConfigurationError(`${caller} expected a function first, got ${typeof value}.`)
}
