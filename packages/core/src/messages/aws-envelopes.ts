import type { DecodedDelivery, Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import { type Decode, named, type Unwrap } from './envelope-traits.ts'
import {
  decodedBy,
  type Fields,
  fieldAsJson,
  fieldsOf,
  isText,
  jsonOf,
  parsed,
  parsedIf,
} from './json-fields.ts'

/** What Amazon SNS wraps around a message for a queue without raw message delivery. */
export interface SnsEnvelope {
  readonly messageId: string
  readonly message: string
  /** The message attributes that are text, with lower-case names. */
  readonly headers: Delivery['headers']
}

/**
 * For the option `decode`: the payload is the message that was published to an SNS topic, with raw message delivery and
 * without. The event key is still the one that SNS gave the message: see {@link snsKey}.
 *
 * @param decode - Decodes the message. @defaultValue JSON
 * @throws {@link InvalidPayloadError} in the guard, for a subscription that still has to be confirmed.
 */
export function unwrapSns<Decoded = unknown>(): Unwrap<Decoded>
export function unwrapSns<Decoded>(decode: Decode<Decoded>): Decode<Decoded>
export function unwrapSns<Decoded>(decode?: Decode<Decoded>): Decode<Decoded> {
  const read = decode ?? (jsonOf as Unwrap<Decoded>)
  return named('unwrapSns', decode, (body, delivery) => {
    const text = readSnsEnvelope(body)?.message
    return read(text === undefined ? body : Buffer.from(text), delivery)
  })
}

/**
 * For the option `decode`: the payload is the `detail` of an EventBridge event. A body that is not an EventBridge event is
 * decoded as it is, as for a rule with an input transformer.
 *
 * @param decode - Decodes the JSON text of the detail. @defaultValue JSON
 */
export function unwrapEventBridge<Decoded = unknown>(decode?: Decode<Decoded>): Decode<Decoded> {
  return named('unwrapEventBridge', decode, (body, delivery) => {
    const event = readEventBridge(body)
    if (event === undefined) return decodedBy(decode, body, delivery)
    // The detail is parsed already.
    return decode === undefined
      ? (event.detail as Decoded)
      : decode(fieldAsJson(body, 'detail'), delivery)
  })
}

/**
 * For the option `skip`: true for the message that S3 sends once when notifications of a bucket are configured. It is no
 * event, and it has no key.
 */
export function s3TestEvent({ body, payload }: DecodedDelivery<unknown>): boolean {
  return isS3Test(payload) || isS3Test(parsed(readSnsEnvelope(body)?.message ?? ''))
}

/**
 * What the publisher wrote of a notification of SNS. Id, times and signatures belong to each publication, and attributes
 * are headers. The message may be an envelope itself.
 */
export function writtenInSns(fields: Fields, inner: (decoded: unknown) => unknown): unknown {
  const { Message, MessageId, Subject, TopicArn, Type } = fields
  const isSns = Type === 'Notification' && isText(MessageId) && isText(TopicArn)
  if (!isSns || typeof Message !== 'string') return undefined
  return { Subject, Message: inner(parsed(Message)) ?? Message }
}

/** What the producer wrote of an EventBridge event. A replay adds its name, and each entry gets a time and an id. */
export function writtenInEventBridge(fields: Fields): unknown {
  if (!isEventBridge(fields)) return undefined
  const { 'detail-type': type, detail, resources, source } = fields
  return { type, source, resources, detail }
}

/** @throws {@link InvalidPayloadError} for a subscription that still has to be confirmed. */
export function readSnsEnvelope(body: Uint8Array): SnsEnvelope | undefined {
  const { Type, MessageId, TopicArn, Message, MessageAttributes } = parsedIf(body, '"TopicArn"')
  if (!isText(Type) || !isText(MessageId) || !isText(TopicArn) || !isText(Message)) return undefined
  if (Type === 'SubscriptionConfirmation' || Type === 'UnsubscribeConfirmation') {
    throw new InvalidPayloadError(
      `This is the ${Type} of an SNS topic and no message. Confirm the subscription: open the SubscribeURL of its body, which is in the dead letter.`,
    )
  }
  if (Type !== 'Notification') return undefined
  return { messageId: MessageId, message: Message, headers: toHeaders(MessageAttributes) }
}

const EVENT_BRIDGE_TEXTS = ['version', 'id', 'detail-type', 'source', 'account', 'time', 'region']

/** An EventBridge event; undefined for any other body. */
export function readEventBridge(
  body: Uint8Array,
): { readonly id: string; readonly detail: unknown } | undefined {
  const event = parsedIf(body, '"detail-type"')
  if (!isEventBridge(event)) return undefined
  return { id: event['id'] as string, detail: event['detail'] }
}

const isEventBridge = (event: Fields): boolean =>
  event['detail'] !== undefined && EVENT_BRIDGE_TEXTS.every((name) => isText(event[name]))

function toHeaders(attributes: unknown): SnsEnvelope['headers'] {
  if (typeof attributes !== 'object' || attributes === null) return {}
  const entries = Object.entries(attributes).flatMap(([name, attribute]: [string, unknown]) => {
    const { Type, Value } = fieldsOf(attribute)
    return typeof Value === 'string' && Type !== 'Binary' ? [[name.toLowerCase(), Value]] : []
  })
  // Not by assignment, because an attribute may be called __proto__.
  return Object.fromEntries(entries) as SnsEnvelope['headers']
}

function isS3Test(value: unknown): boolean {
  const { Service, Event } = fieldsOf(value)
  return Service === 'Amazon S3' && Event === 's3:TestEvent'
}
