import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'
import type { Fingerprint } from '../model/brands.ts'
import type { FingerprintRule } from '../options/resolved-options.ts'
import type { Decoded } from './decode.ts'

/**
 * Versions of the rules that make fingerprints, kept for ever: they are stored in every row. A change in what is
 * hashed is a new number, or every redelivery across the change would be a conflict.
 */
export const FINGERPRINT_RULES: Readonly<Record<'none' | 'body' | 'function', number>> =
  Object.freeze({
    /** No fingerprint; nothing is ever a conflict. */
    none: 0,
    /** SHA-256 over the RFC 8785 text of the decoded body, or over the raw body where that text would not tell all. */
    body: 1,
    /** SHA-256 over the RFC 8785 text of what the user's function returned; of nothing when it returned undefined. */
    function: 2,
  } as const)

const RULE_BITS = 8n
/** 56 bits. */
const DIGEST_HEX_DIGITS = 14
/** What a guard registers: fingerprints of different rules say nothing about each other. */
export const fingerprintRuleOf = (rule: FingerprintRule): number =>
  FINGERPRINT_RULES[typeof rule === 'function' ? 'function' : rule]

export interface Fingerprinted {
  readonly body: Uint8Array
  /** Before the schema: a new default in it must not turn redeliveries into conflicts. */
  readonly decoded: Decoded
  /** After the schema. */
  readonly payload: unknown
}

/**
 * What the payload was, as a signed 64-bit integer: the leading 56 bits of a SHA-256, then 8 bits for the version
 * of the rule ({@link FINGERPRINT_RULES}). Headers never enter it: they change with each hop.
 */
export function fingerprintOf(
  rule: FingerprintRule,
  event: Fingerprinted,
): Fingerprint | Promise<Fingerprint> {
  if (rule === 'none') return 0n as Fingerprint
  if (typeof rule === 'function') return fingerprintBy(rule, event.payload)
  return toFingerprint(rule, toCanonicalText(event.decoded) ?? event.body)
}

async function fingerprintBy(
  rule: (payload: unknown) => unknown,
  payload: unknown,
): Promise<Fingerprint> {
  return toFingerprint(rule, canonicalize(await rule(payload)) ?? '')
}

function toFingerprint(rule: FingerprintRule, bytes: string | Uint8Array): Fingerprint {
  const digest = BigInt(`0x${hash('sha256', bytes, 'hex').slice(0, DIGEST_HEX_DIGITS)}`)
  const version = BigInt(fingerprintRuleOf(rule))
  return BigInt.asIntN(64, (digest << RULE_BITS) | version) as Fingerprint
}

/** Undefined when the text would not tell two different bodies apart. */
function toCanonicalText({ value, isExact }: Decoded): string | undefined {
  if (!isExact) return undefined
  try {
    return canonicalize(value)
  } catch {
    // A lone surrogate, an infinite number, a bigint: RFC 8785 has no text for it.
    return undefined
  }
}
