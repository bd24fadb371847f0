import { afterAnswer, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { copyBody, type Delivery } from '../model/delivery.ts'
import { describeError, InvalidPayloadError } from '../model/errors.ts'
import { types } from '../node.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { traitsOf } from './envelope-traits.ts'
import { roundedPath } from './rounded-path.ts'

/** A message before it is decoded. */
export interface Undecoded {
  readonly delivery: Delivery
  /** Without its content encoding. */
  readonly body: Uint8Array
}

/** A decoded body. */
export interface Decoded {
  readonly value: unknown
  /** The part of the value that is compared, if an envelope knows that the rest differs between copies of an event. */
  readonly compared?: unknown
  /** True if the value as JSON holds everything in the body; false if JavaScript rounded one of its numbers. */
  readonly isExact: boolean
  /** Where the value holds an integer that JavaScript rounded. */
  readonly rounded?: string | undefined
}

/**
 * Decodes a copy of the body with the user's function: `swap16` and decryption change bytes in place, and the next run and
 * the dead letter need them as they came. Throws whatever the function throws.
 */
export function decodeByUser(
  { body, delivery }: Undecoded,
  decode: NonNullable<ResolvedOptions['decode']>,
  fingerprint: ResolvedOptions['fingerprint'],
): MaybeAsync<Decoded> {
  const { compared } = traitsOf(decode)
  return afterAnswer(decode(copyBody({ body }), delivery), (value) => {
    const part = compared === undefined ? {} : { compared: compared(value) }
    // Only the rule `body` compares the decoded value. Looking through it for nothing would cost as much as decoding.
    const isExact =
      fingerprint === 'body' && isLosslessJson('compared' in part ? part.compared : value)
    const rounded =
      isExact && !('compared' in part) ? undefined : roundedPath(value, MOST_LOOKED_AT)
    return { value, ...part, isExact, rounded }
  })
}

/** A look through every value that a user's function decoded would cost as much as decoding. */
const MOST_LOOKED_AT = 100

/** Strict, because replacement characters would make two different bodies equal. */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * The default: JSON in UTF-8; an empty body is null.
 *
 * @throws {@link InvalidPayloadError}
 */
export function decodeJson(body: Uint8Array): Decoded {
  if (body.byteLength === 0) return { value: null, isExact: true }
  const text = decodeUtf8(body)
  const value = parseJson(text, JSON.parse)
  if (!holdsRounded(text)) return { value, isExact: true }
  return { value, isExact: false, rounded: roundedPath(value) }
}

/**
 * Of a message whose producer says `text/plain`: JSON, as many producers write it all the same, or else the text itself.
 *
 * @throws {@link InvalidPayloadError}
 */
export function decodeJsonOrText(body: Uint8Array): Decoded {
  const text = decodeUtf8(body)
  try {
    return decodeJson(body)
  } catch {
    return { value: text, isExact: true }
  }
}

/**
 * What `parse` makes of the body.
 *
 * @throws {@link InvalidPayloadError} without the text in its message.
 */
export function decodeText(body: Uint8Array, parse: (text: string) => unknown): unknown {
  return parseJson(decodeUtf8(body), parse)
}

function parseJson(text: string, parse: (text: string) => unknown): unknown {
  try {
    return parse(text)
  } catch (error) {
    if (error instanceof InvalidPayloadError) throw error
    const remedy = 'Set the option `decode` for other formats.'
    throw new InvalidPayloadError(`The body is not JSON${placeIn(error)}. ${remedy}`)
  }
}

/** Where the text stops being JSON. The engine's own words quote the text, which must not get into a log. */
function placeIn(error: unknown): string {
  return /^[^"]* in JSON( at position \d+)/.exec(describeError(error).message)?.[1] ?? ''
}

function decodeUtf8(body: Uint8Array): string {
  try {
    return utf8.decode(body)
  } catch (cause) {
    const remedy = 'Set the option `decode` for other encodings.'
    throw new InvalidPayloadError(`The body is not UTF-8. ${remedy}`, { cause })
  }
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
    if (typeof value !== 'object' || value === null || types.isDate(value)) {
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
  return Array.isArray(value) || prototype === null || isObjectPrototype(prototype)
}

/** Of any realm: each has an `Object.prototype` of its own. */
function isObjectPrototype(value: unknown): boolean {
  if (value === Object.prototype) return true
  return Object.getPrototypeOf(value) === null && Object.hasOwn(Object(value), 'isPrototypeOf')
}

function isLosslessLeaf(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  return (
    value === null ||
    types.isDate(value) ||
    ['string', 'boolean', 'undefined', 'bigint'].includes(typeof value)
  )
}

/**
 * Doubles hold every decimal of 15 digits, so shorter numbers without an exponent need no look. Only what follows white
 * space, a bracket, a comma or a colon can be a number: most ids hold a digit before an e.
 */
const MAY_BE_ROUNDED = /(?:^|[\s[,:])-?[0-9](?:[0-9.]{15}|[0-9.]*[eE])/

/** Whether valid JSON text holds a number that is another one after `JSON.parse`. */
export function holdsRounded(text: string): boolean {
  // False for most texts, without reading them number by number.
  if (!MAY_BE_ROUNDED.test(text)) return false
  let isRounded = false
  const look = (_name: string, value: unknown, context?: { readonly source?: string }): null => {
    if (typeof value === 'number') isRounded ||= !isHeld(context?.source ?? '', value)
    return null
  }
  try {
    JSON.parse(text, look)
    return isRounded
  } catch {
    // The text nests deeper than the stack. Its bytes identify it.
    return true
  }
}

/** Whether the shortest spelling of the double is the same decimal number. */
const isHeld = (literal: string, value: number): boolean =>
  decimalOf(literal) === decimalOf(String(value))

const NUMBER = /^-?(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i

/** The significant digits and the power of ten, which are one text for all spellings of a number. */
function decimalOf(literal: string): string | undefined {
  const [matched, whole = '', fraction = '', exponent = '0'] = NUMBER.exec(literal) ?? []
  if (matched === undefined) return undefined
  const digits = (whole + fraction).replace(/^0+/, '')
  let end = digits.length
  while (digits[end - 1] === '0') end -= 1
  if (end === 0) return '0'
  return `${digits.slice(0, end)}e${Number(exponent) - fraction.length + digits.length - end}`
}
