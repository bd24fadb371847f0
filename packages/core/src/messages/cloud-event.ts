import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import { type Decode, named, type Unwrap } from './envelope-traits.ts'
import { compose } from './event-key.ts'
import { decodedBy, type Fields, fieldAsJson, fieldsOf, isText, parsedIf } from './json-fields.ts'

/** How transports spell the attributes of a CloudEvent. AMQP 0-9-1 has no CloudEvents binding, so several are in use. */
const SPELLINGS = ['ce_', 'ce-', 'cloudevents:', 'cloudevents_'].map((prefix) => ({
  source: `${prefix}source`,
  id: `${prefix}id`,
  type: `${prefix}type`,
  toValue: prefix === 'ce-' ? fromHttp : (value: string | undefined) => value,
}))

/**
 * The key of a CloudEvent of the binary mode.
 *
 * Kafka and AMQP carry attributes as they are. HTTP encodes them, and what was sent over HTTP keeps its `ce-` headers in a queue.
 *
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#3132-http-header-values
 */
export function binaryCloudEvent({ headers }: Pick<Delivery, 'headers'>): string | undefined {
  for (const { id, source, toValue } of SPELLINGS) {
    // Most messages do not have these headers.
    if (!Object.hasOwn(headers, source)) continue
    const idOf = Object.hasOwn(headers, id) ? headers[id] : undefined
    const key = toCloudEventKey(toValue(headers[source]), toValue(idOf))
    if (key !== undefined) return key
  }
  return undefined
}

/** The attribute `type` of a CloudEvent of the binary mode. */
export function binaryCloudEventType({ headers }: Pick<Delivery, 'headers'>): string | undefined {
  for (const { toValue, type } of SPELLINGS) {
    if (Object.hasOwn(headers, type)) return toValue(headers[type])
  }
  return undefined
}

const QUOTED = /^"(?:[^"\\]|\\.)*"$/s
const ENCODED = /(?:%[0-9a-f]{2})+/gi

/** Without quotes, which older versions of the binding write, then percent-decoded once. */
function fromHttp(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const text = QUOTED.test(value) ? value.slice(1, -1).replace(/\\(.)/gs, '$1') : value
  return text.replace(ENCODED, (bytes) => {
    try {
      return decodeURIComponent(bytes)
    } catch {
      // Not UTF-8, so nobody has encoded it.
      return bytes
    }
  })
}

const STRUCTURED = /^application\/cloudevents\+json\s*(;|$)/i

/**
 * The key of a CloudEvent of the structured mode.
 *
 * @param isWhole - The decoded value is the whole body.
 */
export function structuredCloudEvent(
  { body, contentType }: Delivery,
  decoded: unknown,
  isWhole: boolean,
): string | undefined {
  const { specversion, source, id } = fieldsOf(decoded)
  const isStructured = typeof specversion === 'string' || STRUCTURED.test(contentType ?? '')
  const found = isStructured ? toCloudEventKey(source, id) : undefined
  if (found !== undefined || isWhole) return found
  // A decoder such as `unwrapCloudEvent` has kept only the data.
  const event = parsedIf(body, '"specversion"')
  return isText(event['specversion']) ? toCloudEventKey(event['source'], event['id']) : undefined
}

function toCloudEventKey(source: unknown, id: unknown): string | undefined {
  if (source === undefined || id === undefined) return undefined
  if (typeof source === 'string' && typeof id === 'string' && source !== '' && id !== '') {
    return compose('cloudevent', source, id)
  }
  throw new InvalidPayloadError(
    'The source and id of a CloudEvent must be strings that are not empty.',
  )
}

/**
 * What the producer wrote of a CloudEvent of the structured mode. Hops add extensions, such as those of tracing, and write
 * the data in another encoding. Source and id are the key, and `time` may be written with another precision.
 */
export function writtenInCloudEvent(fields: Fields): unknown {
  const { id, source, specversion, subject, type } = fields
  if (!isText(specversion) || !isText(id) || !isText(source) || !isText(type)) return undefined
  return { type, subject, data: dataOf(fields) }
}

function dataOf(event: Fields): unknown {
  const { data, data_base64: base64 } = event
  const isJson = isJsonData(event)
  if (typeof base64 !== 'string') return isJson || typeof data !== 'string' ? data : inBase64(data)
  if (!isJson) return base64
  try {
    return JSON.parse(Buffer.from(base64, 'base64').toString('utf8'))
  } catch {
    return base64
  }
}

const inBase64 = (text: string): string => Buffer.from(text).toString('base64')

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
  return named('unwrapCloudEvent', decode, (body, delivery) => {
    const event = readCloudEvent(body)
    if (event === undefined) return decodedBy(decode, body, delivery)
    const { data, data_base64: base64 } = event
    if (typeof base64 === 'string') {
      const bytes = new Uint8Array(Buffer.from(base64, 'base64'))
      if (decode === undefined && !isJsonData(event)) return bytes as Decoded
      return decodedBy(decode, bytes, delivery)
    }
    if (decode === undefined) return (data ?? null) as Decoded
    if (data === undefined) return decode(new Uint8Array(), delivery)
    const isText = typeof data === 'string' && !isJsonData(event)
    return decode(isText ? Buffer.from(data) : fieldAsJson(body, 'data'), delivery)
  })
}

const JSON_TYPE = /^[^/;]+\/(?:[^;]+\+)?json\s*(?:;|$)/i

const isJsonData = ({ datacontenttype: type }: Fields): boolean =>
  typeof type !== 'string' || JSON_TYPE.test(type)

/** A CloudEvent of the structured mode; undefined for any other body. */
function readCloudEvent(body: Uint8Array): Fields | undefined {
  const event = parsedIf(body, '"specversion"')
  return isText(event['specversion']) ? event : undefined
}
