import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import { type Decode, named, requireFunction } from './envelope-traits.ts'
import { fieldsOf } from './json-fields.ts'

/** A message in the wire format of Confluent's serializers. */
export interface ConfluentMessage {
  /** The id of the schema in the registry: a number, or the GUID of the schema where a header has it. */
  readonly schemaId: number | string
  /** What follows the id, wherever the id is. In Protobuf, the message indexes come first. */
  readonly bytes: Uint8Array
  /** The whole body, for clients of a registry that read the id themselves. */
  readonly body: Uint8Array
}

/** Newer serializers leave the body as it is, and write the id in a header. */
const ID_HEADER = '__value_schema_id'
const NUMBER_FORMAT = 0
const NUMBER_BYTES = 5
const GUID_FORMAT = 1
const GUID_BYTES = 17

/**
 * For the option `decode`: takes the wire format of Confluent's serializers apart and hands the message to the client of
 * your schema registry. The id of the schema is in front of the body, or in the header `__value_schema_id`. A body in another format is dead-lettered at once, and while the registry is down messages are
 * retried. A tombstone (an empty body) is null.
 *
 * @param decode - Reads the message. A promise is awaited, within `deadlineMs`.
 * @see https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
 *
 * @example
 * ```ts
 * import { unwrapConfluent } from '@onceward/core'
 *
 * declare const schemaOf: (id: number | string) => Promise<{ fromBuffer(bytes: Buffer): unknown }>
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
  return named('unwrapConfluent', decode, (body, delivery) => {
    if (body.byteLength === 0) return null
    const inHeader = readId(headerOf(delivery))
    if (inHeader !== undefined) {
      const { rest, schemaId } = inHeader
      const bytes = rest.byteLength === 0 ? body : Buffer.concat([rest, body])
      return decode({ schemaId, bytes, body }, delivery)
    }
    const inBody = body[0] === NUMBER_FORMAT ? readId(body) : undefined
    if (inBody === undefined) {
      throw new InvalidPayloadError(
        `The message is not in the wire format of Confluent: its body must begin with a zero byte and the four bytes of a schema id, or it must have the header \`${ID_HEADER}\`. Check the serializer of the producer.`,
      )
    }
    return decode({ schemaId: inBody.schemaId, bytes: inBody.rest, body }, delivery)
  })
}

interface FoundId {
  readonly schemaId: number | string
  readonly rest: Uint8Array
}

function readId(bytes: Uint8Array): FoundId | undefined {
  if (bytes[0] === NUMBER_FORMAT && bytes.byteLength >= NUMBER_BYTES) {
    const schemaId = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1)
    return { schemaId, rest: bytes.subarray(NUMBER_BYTES) }
  }
  if (bytes[0] !== GUID_FORMAT || bytes.byteLength < GUID_BYTES) return undefined
  const hex = Buffer.from(bytes.subarray(1, GUID_BYTES)).toString('hex')
  const schemaId = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return { schemaId, rest: bytes.subarray(GUID_BYTES) }
}

/** Its bytes are no text, so only the message of the client has them. */
function headerOf({ raw }: Delivery): Uint8Array {
  const headers = fieldsOf(fieldsOf(fieldsOf(raw)['message'])['headers'])
  const value = Object.hasOwn(headers, ID_HEADER) ? headers[ID_HEADER] : undefined
  const last: unknown = Array.isArray(value) ? value.at(-1) : value
  return last instanceof Uint8Array ? last : NOTHING
}

const NOTHING = new Uint8Array()
