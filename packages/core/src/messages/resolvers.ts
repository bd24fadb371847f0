import type { DecodedDelivery, Delivery } from '../model/delivery.ts'
import { ConfigurationError } from '../model/errors.ts'
import { hash } from '../node.ts'
import type { Resolver } from '../options/options.ts'
import { readEventBridge, readSnsEnvelope } from './aws-envelopes.ts'
import { binaryCloudEvent, structuredCloudEvent } from './cloud-event.ts'
import { compose } from './event-key.ts'

/**
 * The key of a CloudEvent: its `source` and `id` together, because an id is unique only per source.
 *
 * Reads the binary mode (`ce_id`, `ce-id`, `cloudEvents:id`, `cloudEvents_id` and their sources among the headers),
 * then the structured mode (a body of content type `application/cloudevents+json`, or one with `specversion`). `ce-` is the
 * spelling of HTTP, whose values are percent-encoded and may be quoted: all spellings of an id are one id.
 *
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md#id
 */
export function cloudEventKey(): Resolver<unknown, string> {
  return cloudEventResolver
}

/** The value of the `Idempotency-Key` header (or `x-idempotency-key`), or of the header with the given name. */
export function idempotencyKeyHeader(name?: string): Resolver<unknown, string> {
  return name === undefined ? keyHeaderResolver : header(name)
}

const keyHeaders = ({ headers }: Pick<Delivery, 'headers'>): string | undefined =>
  read(headers, 'idempotency-key') ?? read(headers, 'x-idempotency-key')

/** The value of a header, in whatever case its name is written. An empty value is an invalid key and refused. */
export function header(name: string): Resolver<unknown, string> {
  if (typeof name !== 'string' || name === '') {
    throw new ConfigurationError(`Expected the name of a header, got \`${String(name)}\`.`)
  }
  const lowerCased = name.toLowerCase()
  return ownResolver(({ headers }) => read(headers, lowerCased))
}

/**
 * The broker's or the publisher's id of the message. When a producer sends an event again, or a queue is redriven, the
 * copy has a new id. So use it only where neither happens.
 */
export function messageId(): Resolver<unknown, string> {
  return ownResolver(({ messageId }) => messageId)
}

/**
 * The key of a message that was published to an SNS topic: the CloudEvents or idempotency-key attributes that its
 * publisher set, or the `id` of an EventBridge event, or else the `MessageId` of SNS. All redeliveries and all
 * subscriptions have the same one; a publisher that publishes twice makes two ids of SNS, as EventBridge does when it
 * retries.
 *
 * Reads deliveries of SNS itself, and messages that SNS sent to a queue without raw message delivery. With raw message
 * delivery the id of SNS is lost: let the publisher set an idempotency-key attribute.
 *
 * @see https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html
 */
export function snsKey(): Resolver<unknown, string> {
  return ownResolver(({ body, messageId, source }) => {
    if (source.broker === 'sns') return readEventBridge(body)?.id ?? messageId
    const envelope = readSnsEnvelope(body)
    if (envelope === undefined) return undefined
    const { headers } = envelope
    const found = binaryCloudEvent({ headers }) ?? keyHeaders({ headers })
    return found ?? readEventBridge(Buffer.from(envelope.message))?.id ?? envelope.messageId
  })
}

/** The `id` of an EventBridge event, whatever brought it: a rule's own target, or a queue. */
export function eventBridgeKey(): Resolver<unknown, string> {
  return ownResolver(({ body }) => readEventBridge(body)?.id)
}

/**
 * The id of a record that `lambdaKinesis` or `lambdaDynamoDbStream` of `@onceward/lambda` was given: of DynamoDB the id of the
 * change, of Kinesis the place in the stream. A producer that puts a record into Kinesis twice makes two places: if it may,
 * take the key from the payload.
 */
export function recordKey(): Resolver<unknown, string> {
  return ownResolver(({ messageId, source }) => {
    if (source.broker === 'dynamodb') return messageId
    return source.broker === 'kinesis' ? positionOf({ source }) : undefined
  })
}

/** SHA-256 of the raw body: two events with the same bytes are one event, for the whole dedup window. */
export function payloadHash(): Resolver<unknown, string> {
  return ownResolver(({ body }) => compose('payload', hash('sha256', body, 'hex')))
}

/**
 * The position of the message in its broker (partition and offset, message id). It detects only redeliveries of that
 * message: an event that was sent twice has two positions, and a replay into another topic gives it a new one.
 */
export function position(): Resolver<unknown, string> {
  return ownResolver(positionOf)
}

export function positionOf({ source }: Pick<Delivery, 'source'>): string | undefined {
  const { broker, queue, position, incarnation } = source
  if (position === undefined || position === '') return undefined
  const parts = [broker, queue, position]
  return compose('position', ...parts, ...(incarnation === undefined ? [] : [incarnation]))
}

/** Own properties only, so that a header named `constructor` is not `Object.prototype.constructor`. */
function read(headers: Delivery['headers'], name: string): string | undefined {
  return Object.hasOwn(headers, name) ? headers[name] : undefined
}

/** What a resolver of onceward itself reads a message with. Resolvers of the user have nothing there. */
export const OWN_READ: unique symbol = Symbol('resolver of onceward')

/**
 * It changes nothing, so it needs no copy of the delivery.
 *
 * @param isWhole - The guard has decoded the body as JSON, so nothing of it is left out of the decoded value.
 */
type OwnRead = (delivery: Delivery, decoded: unknown, isWhole: boolean) => string | undefined

export interface OwnResolver extends Resolver<unknown, string> {
  readonly [OWN_READ]?: OwnRead
}

export function ownResolver(read: OwnRead): OwnResolver {
  const resolver: Resolver<unknown, string> = (delivery) =>
    read(delivery, decodedOf(delivery), false)
  return Object.assign(resolver, { [OWN_READ]: read })
}

const DECODED: unique symbol = Symbol('decoded body')

/** Keeps the body from before the schema beside the payload, because a schema may drop the field with the identity. */
export function withDecoded<Payload>(
  delivery: DecodedDelivery<Payload>,
  decoded: unknown,
): DecodedDelivery<Payload> {
  return Object.defineProperty(delivery, DECODED, { value: decoded })
}

const decodedOf = (delivery: DecodedDelivery<unknown>): unknown =>
  DECODED in delivery ? delivery[DECODED] : delivery.payload

const cloudEventResolver = ownResolver(
  (delivery, decoded, isWhole) =>
    binaryCloudEvent(delivery) ?? structuredCloudEvent(delivery, decoded, isWhole),
)
const keyHeaderResolver = ownResolver(keyHeaders)
