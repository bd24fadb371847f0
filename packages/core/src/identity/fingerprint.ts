import canonicalize from 'canonicalize'
import { afterAnswer, type MaybeAsync } from '../concurrency/maybe-async.ts'
import type { Decoded } from '../messages/decode.ts'
import { nameOf } from '../messages/envelope-traits.ts'
import { type EnvelopeFormat, writtenPart } from '../messages/written.ts'
import type { Fingerprint } from '../model/brands.ts'
import { hash, types } from '../node.ts'
import type { FingerprintRule } from '../options/resolved-options.ts'
import { WrongAnswerError } from '../options/wrong-answer.ts'
import { readHex } from '../support/hex.ts'

/**
 * Versions of the fingerprint rules. Each version is kept, because every row stores one. A change in what is
 * hashed needs a new number; otherwise every redelivery across the change would be a conflict.
 */
export const FINGERPRINT_RULES: Readonly<
  Record<'none' | 'body' | 'function' | EnvelopeFormat, number>
> = Object.freeze({
  /** No fingerprint, and so never a conflict. */
  none: 0,
  /** SHA-256 over the RFC 8785 text of the decoded body, or over the raw body if that text would lose something. */
  body: 1,
  /** Of earlier versions: SHA-256 over the RFC 8785 text of the result of the user's function. See {@link fingerprintRuleOf}. */
  function: 2,
  /** As `body`, of what the producer wrote in an envelope. */
  sns: 3,
  eventBridge: 4,
  massTransit: 5,
  cloudEvent: 6,
  s3: 7,
} as const)

/** The versions behind are those of guards with a function in `decode` or `fingerprint`. */
const LEAST_NAMED = 32
const NAMED = 256 - LEAST_NAMED

/**
 * The version that a guard registers. Fingerprints of different rules cannot be compared. With another `decode` or another
 * function the same message has another fingerprint, so their names or their source code make the version: a change of them
 * must not turn redeliveries of all events that wait into conflicts. Two of them have the same version by chance once in 224
 * times, but none has that of a guard without a function.
 */
export function fingerprintRuleOf(rule: FingerprintRule, decode: unknown): number {
  if (rule === 'none' || (rule === 'body' && decode === undefined)) return FINGERPRINT_RULES[rule]
  const digest = hash('sha256', JSON.stringify([nameOf(rule), nameOf(decode)]), 'hex')
  return LEAST_NAMED + (Number.parseInt(digest.slice(0, 8), 16) % NAMED)
}

export interface Fingerprinted {
  readonly body: Uint8Array
  /** The body from before the schema, so that a new default in the schema does not turn redeliveries into conflicts. */
  readonly decoded: Decoded
  /** The payload from after the schema. */
  readonly payload: unknown
  /** Of the guard: see {@link fingerprintRuleOf}. */
  readonly version: number
}

/**
 * The fingerprint of a payload, a signed 64-bit integer: the leading 56 bits of a SHA-256, then 8 bits for the version
 * of the rule. Headers are left out, because they change with each hop.
 */
export function fingerprintOf(
  rule: FingerprintRule,
  { body, decoded, payload, version }: Fingerprinted,
): MaybeAsync<Fingerprint> {
  if (rule === 'none') return 0n as Fingerprint
  if (typeof rule === 'function') return fingerprintBy(rule, payload, version)
  const known = 'compared' in decoded ? undefined : writtenPart(decoded.value)
  const compared =
    known === undefined
      ? decoded
      : { compared: known.part, isExact: decoded.isExact, value: decoded.value }
  const text = canonicalText(compared)
  // The body of a copy differs in what is not compared, and then nothing is left to compare.
  if (text === undefined && 'compared' in compared) return 0n as Fingerprint
  const isPlain = known === undefined || version !== FINGERPRINT_RULES.body
  return toFingerprint(isPlain ? version : FINGERPRINT_RULES[known.format], digestOf(text ?? body))
}

function fingerprintBy(
  rule: (payload: unknown) => unknown,
  payload: unknown,
  version: number,
): MaybeAsync<Fingerprint> {
  return afterAnswer(rule(payload), (seen) => {
    if (typeof seen === 'function' || typeof seen === 'symbol') refuse(seen)
    return toFingerprint(version, digestOf(answerText(seen)))
  })
}

function answerText(seen: unknown): string {
  let text: string | undefined
  try {
    text = canonicalWithBigints(seen)
  } finally {
    // Most answers hold nothing of the kind, and some nest deeper than this call can look.
    if (text === undefined || text.includes('{}')) JSON.stringify(seen, refuseUnseen)
  }
  return text ?? ''
}

/**
 * What a map, a form or a promise holds is not in its JSON, so that all payloads would be equal. No
 * message can cause these answers, so the function is wrong, and the message is deferred until it is corrected.
 */
function refuseUnseen(_name: string, value: unknown): unknown {
  const isEmpty = typeof value === 'object' && value !== null && Object.keys(value).length === 0
  const isUnseen =
    isEmpty &&
    !Array.isArray(value) &&
    !ArrayBuffer.isView(value) &&
    Object.prototype.toString.call(value) !== '[object Object]'
  if (isUnseen) refuse(value)
  return typeof value === 'bigint' ? String(value) : value
}

function refuse(answer: unknown): never {
  throw new WrongAnswerError('fingerprint', answer)
}

function toFingerprint(version: number, digestInHex: string): Fingerprint {
  readHex(digestInHex, BITS)
  BITS.setUint8(7, version)
  return BITS.getBigInt64(0) as Fingerprint
}

/** The 64 bits of one fingerprint at a time. A number from a text of digits would take five times as long. */
const BITS = new DataView(new ArrayBuffer(8))

/** Undefined if two different bodies could have the same text, or the value has none, as for a lone surrogate. */
function canonicalText(decoded: Decoded): string | undefined {
  if (!decoded.isExact) return undefined
  const value = 'compared' in decoded ? decoded.compared : decoded.value
  try {
    // The engine takes half the time of the library, for what most bodies hold.
    const text: string | undefined = JSON.stringify(sortedCopy(value))
    // It may have a lone surrogate, which has no canonical text.
    if (text?.includes('\\ud') === false) return text
  } catch {
    // The engine might write it in another way.
  }
  try {
    return canonicalWithBigints(value)
  } catch {
    return undefined
  }
}

const NOT_PLAIN = new Error('Only the library writes this value.')

/** @throws for what is written in another order or another way than it is copied, and for what nests too deep. */
function sortedCopy(value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) throw NOT_PLAIN
  if (typeof value !== 'object' || value === null) return value
  if ('toJSON' in value) throw NOT_PLAIN
  if (Array.isArray(value)) return value.map(sortedCopy)
  if (Object.getPrototypeOf(value) !== Object.prototype) throw NOT_PLAIN
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(value).sort()) {
    // Integers come first among the names of an object, whatever their order was.
    if (name < ':' || name === '__proto__') throw NOT_PLAIN
    const inner = (value as typeof copy)[name]
    copy[name] = typeof inner === 'string' ? inner : sortedCopy(inner)
  }
  return copy
}

/**
 * RFC 8785 text. It has no integers beyond 2^53, so in a value that holds a bigint each text and each bigint gets a letter
 * in front: no other value has the same text.
 */
function canonicalWithBigints(value: unknown): string | undefined {
  try {
    return canonicalize(value)
  } catch (error) {
    if (!holdsBigint(value)) throw error
    return `bigint:${canonicalize(lettered(value))}`
  }
}

function holdsBigint(root: unknown): boolean {
  // A set: what contains itself is visited once.
  const open = new Set<unknown>([root])
  for (const value of open) {
    if (typeof value === 'bigint') return true
    if (typeof value !== 'object' || value === null) continue
    for (const inner of Object.values(value)) open.add(inner)
  }
  return false
}

function lettered(value: unknown): unknown {
  if (typeof value === 'bigint') return `n${value}`
  if (typeof value === 'string') return `s${value}`
  if (Array.isArray(value)) return value.map(lettered)
  if (typeof value !== 'object' || value === null || types.isDate(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, lettered(inner)]))
}

const digestOf = (bytes: string | Uint8Array): string => hash('sha256', bytes, 'hex')
