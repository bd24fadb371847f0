import type { EventKey } from '../model/brands.ts'
import { InvalidPayloadError, MissingKeyError } from '../model/errors.ts'
import { hash } from '../node.ts'
import { shown } from '../support/shown.ts'

/** Longest key or tenant that is stored as it is: an index row stays far below a page. */
const MOST_BYTES = 1_024

/**
 * A key as stores and operators see it: one of more than 1,024 bytes is `sha256:` and the SHA-256 of its UTF-8 in hex. The
 * SQL function `onceward.event_id` does the same.
 */
export function storedKey(key: string): string {
  // No text has more bytes than three for each of its units.
  if (key.length * 3 <= MOST_BYTES || Buffer.byteLength(key) <= MOST_BYTES) return key
  return `sha256:${hash('sha256', key, 'hex')}`
}

/**
 * Turns a resolver's value into a key: a well-formed string that is not empty, a safe integer or a bigint. A key of more
 * than 1,024 bytes is replaced by its hash: see {@link storedKey}.
 *
 * Resolvers are typed, but they read JSON. `JSON.parse` can round two 64-bit ids to the same number, and lone surrogates
 * of two different keys have the same encoding. Both would make one event of two, so such keys are refused.
 *
 * @returns undefined when the resolver found no key.
 * @throws {@link InvalidPayloadError}
 */
export function toEventKey(value: unknown, name = 'event key'): EventKey | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value === 'number') {
    if (Number.isSafeInteger(value)) return String(value) as EventKey
    throw invalid(
      name,
      'is a number that JavaScript cannot hold exactly; set `decode: losslessJson()` or send it as a string',
    )
  }
  if (typeof value === 'bigint') return String(value) as EventKey
  if (typeof value !== 'string') {
    throw invalid(
      name,
      `is of type ${typeof value}; it must be a string, a safe integer or a bigint`,
    )
  }
  if (!value.isWellFormed()) throw invalid(name, 'has a lone surrogate, which is not valid Unicode')
  if (value === '') throw invalid(name, 'is empty')
  return storedKey(value) as EventKey
}

/** The resolver's kind, then each part after its length, so that no two lists of parts have the same key. */
export function compose(kind: string, ...parts: readonly string[]): string {
  return `${kind}${parts.map((part) => `:${Buffer.byteLength(part)}:${part}`).join('')}`
}

const invalid = (name: string, problem: string): InvalidPayloadError =>
  new InvalidPayloadError(`The ${name} ${problem}.`)

/** Why a message has no key, and what to do. */
export function missingKey(what: {
  readonly isTenantMissing: boolean
  readonly isPositionMissing: boolean
  /** Whether the user has set the option that found nothing. */
  readonly isChosen: boolean
  readonly payload: unknown
}): MissingKeyError {
  const { isChosen, isPositionMissing, isTenantMissing, payload } = what
  const option = isTenantMissing ? 'tenant' : 'eventKey'
  if (isPositionMissing) {
    return new MissingKeyError(
      `\`${option}\` found nothing, and the message has no position in its broker that could be used instead.`,
    )
  }
  if (!isChosen) {
    return new MissingKeyError(
      'No resolver of `eventKey` found a key. Let the producer set it (CloudEvents source and id, or an idempotency-key header), or set the option to a resolver that finds it.',
    )
  }
  return new MissingKeyError(
    `\`${option}\` found nothing. ${fieldsOf(payload)} Correct the resolver, or let the producer set what it reads.`,
  )
}

const MOST_FIELDS = 20

/** The names are shown and not the values, which may be secret. */
function fieldsOf(payload: unknown): string {
  if (typeof payload !== 'object' || payload === null) {
    return `The payload is of type ${payload === null ? 'null' : typeof payload} and has no fields.`
  }
  if (Array.isArray(payload)) return 'The payload is an array and has no named fields.'
  const names = Object.keys(payload)
  if (names.length === 0) return 'The payload has no fields.'
  const more = names.length > MOST_FIELDS ? `, and ${names.length - MOST_FIELDS} more` : ''
  const listed = names.slice(0, MOST_FIELDS).map((name) => `\`${shown(name)}\``)
  return `The payload has these fields: ${listed.join(', ')}${more}.`
}
