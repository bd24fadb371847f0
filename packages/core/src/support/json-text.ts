/** Not in the types of this version of ECMAScript. */
const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown }

/** JSON text in which a bigint is an integer, so that no digit is lost. */
export const toJsonText = (value: unknown): string => JSON.stringify(value, bigintAsWritten)

/** SQS refuses them in a text. JSON has them in strings only. */
const NOT_EVERYWHERE = /[\ufffe\uffff]/g

/** The same JSON in characters that every broker takes. */
export const withEscapes = (json: string): string =>
  json.replaceAll(NOT_EVERYWHERE, (character) => `\\u${character.charCodeAt(0).toString(16)}`)

const bigintAsWritten = (_name: string, value: unknown): unknown =>
  typeof value === 'bigint' ? rawJSON(String(value)) : value

/** Shorter integers are held by a double. Most texts have no longer one. */
const MAY_BE_LARGE = /\d{16}/
const INTEGER = /^-?\d+$/

/**
 * What JSON text says, with integers beyond 2^53 as bigint, which `JSON.parse` rounds.
 *
 * @throws SyntaxError for what is no JSON, RangeError for what nests deeper than the stack.
 */
export function fromJsonText(text: string): unknown {
  return MAY_BE_LARGE.test(text) ? JSON.parse(text, integerAsWritten) : JSON.parse(text)
}

function integerAsWritten(
  _name: string,
  value: unknown,
  context?: { readonly source?: string },
): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value
  const source = context?.source ?? ''
  return INTEGER.test(source) ? BigInt(source) : value
}
