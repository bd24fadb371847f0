import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import { decodeJson } from './decode.ts'
import type { Decode } from './envelope-traits.ts'

/** The fields of something that another system wrote. */
export type Fields = Readonly<Record<string, unknown>>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? (value as Fields) : {}

/** A text that is not empty. */
export const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

/** The fields of a JSON object. Only bodies with the mark are parsed, because most are parsed by the guard already. */
export function parsedIf(body: Uint8Array, mark: string): Fields {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  return bytes.includes(mark) ? parsed(bytes.toString('utf8')) : {}
}

export function parsed(text: string): Fields {
  try {
    return fieldsOf(JSON.parse(text))
  } catch {
    return {}
  }
}

/** The default of envelopes for what they wrap: JSON in UTF-8. */
export const jsonOf = (body: Uint8Array): unknown => decodeJson(body).value

/** By the user's decoder, or as JSON. */
export function decodedBy<Decoded>(
  decode: Decode<Decoded> | undefined,
  body: Uint8Array,
  delivery: Delivery,
): Decoded | Promise<Decoded> {
  return decode === undefined ? (jsonOf(body) as Decoded) : decode(body, delivery)
}

/**
 * A field of a JSON object as JSON text, with its numbers as they were written: a decoder of the user may keep what a
 * number cannot.
 *
 * @throws {@link InvalidPayloadError} for what can be read as JSON, but not written.
 */
export function fieldAsJson(body: Uint8Array, name: string): Uint8Array {
  try {
    const fields = JSON.parse(Buffer.from(body).toString('utf8'), numberAsWritten) as Fields
    return Buffer.from(JSON.stringify(fields[name]))
  } catch (cause) {
    throw new InvalidPayloadError(
      `The field \`${name}\` of the message nests too deep for a decoder of your own. Decode it as JSON: leave the decoder out.`,
      { cause },
    )
  }
}

/** Not in every runtime, nor in the types of this version of ECMAScript. */
const { rawJSON } = JSON as { readonly rawJSON?: (text: string) => unknown }

function numberAsWritten(
  _key: string,
  value: unknown,
  context?: { readonly source?: string },
): unknown {
  const source = typeof value === 'number' ? context?.source : undefined
  return source === undefined || rawJSON === undefined ? value : rawJSON(source)
}
