import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'
import type { Fingerprint } from '../model/brands.ts'
import type { FingerprintRule } from '../options/resolved-options.ts'
import type { Decoded } from './decode.ts'

/**
 * Versions of the fingerprint rules. Each version stays for ever, because every row stores one. A change in what is
 * hashed needs a new number; otherwise every redelivery across the change would be a conflict.
 */
export const FINGERPRINT_RULES: Readonly<Record<'none' | 'body' | 'function', number>> =
  Object.freeze({
    /** No fingerprint, and so never a conflict. */
    none: 0,
    /** SHA-256 over the RFC 8785 text of the decoded body, or over the raw body if that text would lose something. */
    body: 1,
    /** SHA-256 over the RFC 8785 text of the user's function's result, or over no bytes if the result is undefined. */
    function: 2,
  } as const)

const RULE_BITS = 8n
/** 56 bits. */
const DIGEST_HEX_DIGITS = 14
/** The version that a guard registers. Fingerprints of different rules cannot be compared. */
export const fingerprintRuleOf = (rule: FingerprintRule): number =>
  FINGERPRINT_RULES[typeof rule === 'function' ? 'function' : rule]

export interface Fingerprinted {
  readonly body: Uint8Array
  /** The body from before the schema, so that a new default in the schema does not turn redeliveries into conflicts. */
  readonly decoded: Decoded
  /** The payload from after the schema. */
  readonly payload: unknown
}

/**
 * The fingerprint of a payload, a signed 64-bit integer: the leading 56 bits of a SHA-256, then 8 bits for the version
 * of the rule ({@link FINGERPRINT_RULES}). Headers are left out, because they change with each hop.
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

/** Undefined if two different bodies could have the same text. */
function toCanonicalText({ value, isExact }: Decoded): string | undefined {
  if (!isExact) return undefined
  try {
    return canonicalize(value)
  } catch {
    // RFC 8785 has no text for a lone surrogate, an infinite number or a bigint.
    return undefined
  }
}
