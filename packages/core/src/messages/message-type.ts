import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError, UnknownTypeError } from '../model/errors.ts'
import type { Resolver } from '../options/options.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { brokerTypeOf } from '../support/adapter-registry.ts'
import { shown } from '../support/shown.ts'
import { readSnsEnvelope } from './aws-envelopes.ts'
import { binaryCloudEventType } from './cloud-event.ts'
import { type Fields, fieldsOf, isText, parsedIf } from './json-fields.ts'
import { ownResolver } from './resolvers.ts'

/**
 * The default of the option `type`: the places where senders write the type of a message. A message that SNS sent to a queue
 * is read as it was published to the topic.
 *
 * @param names - The types in `on`: MassTransit names several for a message.
 */
export const messageType = (names: ReadonlySet<string>): Resolver<unknown, string> =>
  ownResolver((delivery, decoded, isWhole) => {
    const mayBeSns = !isWhole || Object.hasOwn(fieldsOf(decoded), 'TopicArn')
    const envelope = mayBeSns ? readSnsEnvelope(delivery.body) : undefined
    const message =
      envelope === undefined
        ? { delivery, decoded, names, isWhole }
        : { delivery: published(delivery, envelope), decoded, names, isWhole: false }
    for (const read of PLACES) {
      const found = read(message)
      if (isText(found)) return found
    }
    return undefined
  })

/**
 * The type of a stored message, for operators: they do not know the option `type` of the guard, so only the places of its
 * default are read.
 */
export function messageTypeOf(
  delivery: Pick<Delivery, 'body' | 'headers' | 'source'>,
): string | undefined {
  try {
    return messageType(new Set())({ ...delivery, payload: undefined })
  } catch {
    return undefined
  }
}

const published = (
  { raw, source }: Delivery,
  { headers, message }: { readonly headers: Delivery['headers']; readonly message: string },
): Delivery => ({ body: Buffer.from(message), headers, raw, source })

interface Message {
  readonly delivery: Delivery
  readonly decoded: unknown
  readonly names: ReadonlySet<string>
  /** The decoded value is all of the body. */
  readonly isWhole: boolean
}

/** In the order in which they are asked. */
const PLACES: readonly ((message: Message) => unknown)[] = [
  ({ delivery }) => binaryCloudEventType(delivery),
  (message) => fieldsWith('specversion', message)['type'],
  ({ delivery: { headers } }) => headerOf(headers, 'type'),
  (message) => fieldsWith('detail-type', message)['detail-type'],
  ({ delivery }) => brokerTypeOf(delivery),
  massTransitType,
  nestPattern,
]

const headerOf = (headers: Delivery['headers'], name: string): string | undefined =>
  Object.hasOwn(headers, name) ? headers[name] : undefined

/** The fields of the body if it has this one, also where `decode` has kept only what it wraps. */
function fieldsWith(name: string, { decoded, delivery, isWhole }: Message): Fields {
  const own = fieldsOf(decoded)
  if (Object.hasOwn(own, name)) return own
  if (isWhole) return {}
  const fields = parsedIf(delivery.body, `"${name}"`)
  return Object.hasOwn(fields, name) ? fields : {}
}

const URN = 'urn:message:'

/**
 * A message has the names of its class and of all that it implements. The first one that `on` has decides, with `urn:message:`
 * or without.
 *
 * @see https://masstransit.io/architecture/interoperability
 */
function massTransitType(message: Message): string | undefined {
  const { messageType: listed } = fieldsWith('messageType', message)
  const header = headerOf(message.delivery.headers, 'mt-messagetype')
  const urns = (Array.isArray(listed) ? listed : (header?.split(';') ?? [])).filter(isText)
  const spelled = urns.flatMap((urn) => [urn, urn.startsWith(URN) ? urn.slice(URN.length) : urn])
  return spelled.find((name) => message.names.has(name)) ?? urns[0]
}

/** What a client of NestJS microservices writes: `{ pattern, data }`. A pattern that is an object is written as JSON. */
function nestPattern(message: Message): string | undefined {
  const { pattern, ...others } = fieldsWith('pattern', message)
  if (!Object.hasOwn(others, 'data')) return undefined
  return typeof pattern === 'object' && pattern !== null
    ? JSON.stringify(pattern)
    : isText(pattern)
      ? pattern
      : undefined
}

/** @throws {@link InvalidPayloadError} */
export function toMessageType(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  if (['string', 'number', 'bigint'].includes(typeof value)) return String(value)
  throw new InvalidPayloadError(`\`type\` returned a value of type ${typeof value}.`)
}

const ACKED =
  'a message of a type that is not in `on` was acknowledged: add a handler, or set `unknown`'

/**
 * The policy for a message of a type that is not in `on`, or of none.
 *
 * @returns The error with which the message is dead-lettered. Undefined: it is acknowledged.
 */
export function unknownType(
  { consumer, reportOnce, unknown }: ResolvedOptions,
  type: string | undefined,
): UnknownTypeError | undefined {
  const named = type === undefined ? undefined : shown(type)
  if (unknown === 'ack') reportOnce('warn', { consumer, type: named }, ACKED, named)
  if (unknown !== 'dead-letter') return undefined
  const what =
    named === undefined
      ? 'The message has no type'
      : `No handler in \`on\` is for the type "${named}"`
  return new UnknownTypeError(
    `${what}. Deploy a version that has one for it, then replay the message; or set \`unknown\`.`,
  )
}
