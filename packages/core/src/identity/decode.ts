import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import type { CommonOptions } from '../options/options.ts'

/** A decoded body. */
export interface Decoded {
  readonly value: unknown
  /** True if the value as JSON holds everything in the body; false if JavaScript rounded one of its numbers. */
  readonly isExact: boolean
}

/**
 * Decodes the body with the user's function, or with the default: JSON in UTF-8, and null for an empty body.
 *
 * @throws {@link InvalidPayloadError}, or whatever the user's function throws.
 */
export function decodeDelivery(
  delivery: Delivery,
  decode: CommonOptions<unknown, unknown>['decode'],
): MaybeAsync<Decoded> {
  return decode === undefined ? decodeJson(delivery.body) : decodeBy(decode, delivery)
}

async function decodeBy(
  decode: NonNullable<CommonOptions<unknown, unknown>['decode']>,
  delivery: Delivery,
): Promise<Decoded> {
  const value: unknown = await decode(delivery.body, delivery)
  return { value, isExact: isLosslessJson(value) }
}

/** Strict, because replacement characters would make two different bodies equal. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

function decodeJson(body: Uint8Array): Decoded {
  if (body.byteLength === 0) return { value: null, isExact: true }
  const text = decodeUtf8(body)
  try {
    return { value: JSON.parse(text), isExact: !hasRoundedNumber(text) }
  } catch (cause) {
    throw new InvalidPayloadError(
      'The body is not JSON. Set the option `decode` for other formats.',
      {
        cause,
      },
    )
  }
}

function decodeUtf8(body: Uint8Array): string {
  try {
    return utf8.decode(body)
  } catch (cause) {
    const remedy = 'Set the option `decode` for other encodings.'
    throw new InvalidPayloadError(`The body is not UTF-8. ${remedy}`, { cause })
  }
}

/** A double holds every decimal of 15 digits, so shorter numbers without an exponent are never rounded. */
const MAY_BE_ROUNDED = /[0-9][0-9.]{15}|[0-9][eE]/

const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/g
const NUMBER = /-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g

/** True if `JSON.parse` changes a number of the JSON text. */
function hasRoundedNumber(text: string): boolean {
  if (!MAY_BE_ROUNDED.test(text)) return false
  // Digits inside strings are not numbers, and ids are full of them.
  const bare = text.replace(STRING, '')
  return (
    MAY_BE_ROUNDED.test(bare) && (bare.match(NUMBER) ?? []).some((token) => !isExactNumber(token))
  )
}

const isExactNumber = (literal: string): boolean => {
  const value = Number(literal)
  return Number.isFinite(value) && toScientific(literal) === toScientific(String(value))
}

/** One spelling for each decimal number: its significant digits and the power of ten of the last one. */
function toScientific(literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().replace('-', '').split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  const power =
    BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return `${significant}e${power}`
}

/**
 * True if JSON text can hold everything in a value that a user's decoder made: plain objects, arrays and primitives,
 * and dates as ISO text. JSON text of a map, a class or a rounded integer would be equal for different payloads.
 */
function isLosslessJson(root: unknown): boolean {
  const open: unknown[] = [root]
  const seen = new Set<object>()
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value !== 'object' || value === null || value instanceof Date) {
      if (!isLosslessLeaf(value)) return false
      continue
    }
    if (seen.has(value) || !isPlain(value)) return false
    seen.add(value)
    for (const inner of Object.values(value)) open.push(inner)
  }
  return true
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return Array.isArray(value) || prototype === Object.prototype || prototype === null
}

function isLosslessLeaf(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  return (
    value === null ||
    value instanceof Date ||
    ['string', 'boolean', 'undefined'].includes(typeof value)
  )
}
