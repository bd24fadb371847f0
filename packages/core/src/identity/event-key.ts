import type { EventKey } from '../model/brands.ts'
import { InvalidPayloadError, MissingKeyError } from '../model/errors.ts'

/** Longest key or tenant. Every identifier in use fits, and an index row stays far below a page. */
const MOST_BYTES = 1_024

/**
 * Turns a resolver's value into a key: a well-formed string or a safe integer, 1–1024 bytes in UTF-8.
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
    throw invalid(name, 'is a number that JavaScript cannot hold exactly; send it as a string')
  }
  if (typeof value !== 'string') {
    throw invalid(name, `is of type ${typeof value}; it must be a string or a safe integer`)
  }
  if (!value.isWellFormed()) throw invalid(name, 'has a lone surrogate, which is not valid Unicode')
  const bytes = Buffer.byteLength(value)
  if (bytes >= 1 && bytes <= MOST_BYTES) return value as EventKey
  throw invalid(name, `has ${bytes} bytes; it must have 1 to ${MOST_BYTES}`)
}

const invalid = (name: string, problem: string): InvalidPayloadError =>
  new InvalidPayloadError(`The ${name} ${problem}.`)

/** Why a message has no key, and what to do. */
export function missingKey(what: {
  readonly isTenantMissing: boolean
  readonly isPositionMissing: boolean
}): MissingKeyError {
  const problem = what.isTenantMissing
    ? 'The resolver of `tenant` found none.'
    : 'No resolver of `eventKey` found a key.'
  const remedy = what.isPositionMissing
    ? 'The message has no position in its broker that could be used instead.'
    : 'Let the producer set it (CloudEvents source and id, or an idempotency-key header), or set the option to a resolver that finds it.'
  return new MissingKeyError(`${problem} ${remedy}`)
}
