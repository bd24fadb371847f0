import { afterAnswer } from '../concurrency/maybe-async.ts'
import { RetryableError } from '../model/errors.ts'
import type { Resolver } from '../options/options.ts'
import { type Decode, named, nameOf, requireFunction, withTraits } from './envelope-traits.ts'
import { decodedBy, type Fields, fieldAsJson, fieldsOf, isText, parsedIf } from './json-fields.ts'
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
    if (envelope === undefined) return decodedBy(decode, body, delivery)
    // The message is parsed already.
    return decode === undefined
      ? (envelope['message'] as Decoded)
      : decode(fieldAsJson(body, 'message'), delivery)
  }
  return withTraits(unwrap, {
    name: `unwrapMassTransit(${nameOf(decode)})`,
    eventKey: massTransitKey(),
  })
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
  return writtenInMassTransit(envelope) === undefined ? undefined : envelope
}

/** What the producer wrote of a MassTransit envelope: addresses, host, headers and times belong to each send. */
export function writtenInMassTransit({ message, messageId, messageType }: Fields): unknown {
  return Array.isArray(messageType) && isText(messageId) ? message : undefined
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
  return named('unwrapS3Pointer', decode, (body, delivery) => {
    const pointer = readS3Pointer(body)
    if (pointer === undefined) return decodedBy(decode, body, delivery)
    return afterAnswer(fetch(pointer), (found: unknown) => {
      if (found === undefined) {
        throw new RetryableError(
          'The S3 object of the message is not there yet. It is tried again.',
        )
      }
      if (typeof found === 'string') return decodedBy(decode, Buffer.from(found), delivery)
      if (found instanceof Uint8Array) return decodedBy(decode, found, delivery)
      throw new RetryableError(
        `Expected \`fetch\` of unwrapS3Pointer to return bytes or a text, got ${typeof found}. Read the stream of the object first: \`Body.transformToByteArray()\`.`,
      )
    }) as Decoded | Promise<Decoded>
  })
}

function readS3Pointer(body: Uint8Array): S3Pointer | undefined {
  const [kind, pointer] = Object.values(parsedIf(body, '"s3BucketName"'))
  const { s3BucketName: bucket, s3Key: key } = fieldsOf(pointer)
  return POINTERS.includes(kind) && isText(bucket) && isText(key) ? { bucket, key } : undefined
}
