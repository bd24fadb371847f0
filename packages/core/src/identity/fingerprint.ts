import { createHash, type Hash, hash } from 'node:crypto'
import { afterAnswer, andThen, type MaybeAsync } from '../concurrency/maybe-async.ts'
import { nextTurn } from '../concurrency/next-turn.ts'
import type { Fingerprint } from '../model/brands.ts'
import type { FingerprintRule } from '../options/resolved-options.ts'
import { WrongAnswerError } from '../options/user-functions.ts'
import { CanonicalJson } from './canonical-json.ts'
import type { Decoded } from './decode.ts'
import { smallCanonicalJson } from './small-canonical-json.ts'

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

/** 56 bits. The version of the rule has the other 8. */
const DIGEST_HEX_DIGITS = 14
const versionHex = (version: number): string => version.toString(16).padStart(2, '0')
const BODY_HEX = versionHex(FINGERPRINT_RULES.body)
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
  { body, decoded, payload }: Fingerprinted,
): MaybeAsync<Fingerprint> {
  if (rule === 'none') return 0n as Fingerprint
  if (typeof rule === 'function') return fingerprintBy(rule, payload)
  const digesting = digestOfDecoded(decoded)
  return digesting instanceof Promise
    ? digesting.then((digest) => toFingerprint(rule, digest ?? digestOf(body)))
    : toFingerprint(rule, digesting ?? digestOf(body))
}

function fingerprintBy(
  rule: (payload: unknown) => unknown,
  payload: unknown,
): MaybeAsync<Fingerprint> {
  const digesting = afterAnswer(rule(payload), (seen) => {
    if (typeof seen === 'function' || typeof seen === 'symbol') refuse(seen)
    return digestOfText(new CanonicalJson(seen, refuseUnseen))
  })
  return andThen(digesting, (digest) => toFingerprint(rule, digest ?? digestOf('')))
}

/**
 * What a map, a form or a promise holds is not in its JSON, so that all payloads would be equal. A bigint has no JSON. No
 * message can cause these answers, so the function is wrong, and the message is deferred until it is corrected.
 */
function refuseUnseen(value: object | bigint): void {
  const isBuiltIn = Object.prototype.toString.call(value) !== '[object Object]'
  if (isBuiltIn && !ArrayBuffer.isView(value)) refuse(value)
}

function refuse(answer: unknown): never {
  throw new WrongAnswerError('fingerprint', answer)
}

function toFingerprint(rule: FingerprintRule, digestInHex: string): Fingerprint {
  const digest = digestInHex.slice(0, DIGEST_HEX_DIGITS)
  const version = rule === 'body' ? BODY_HEX : versionHex(fingerprintRuleOf(rule))
  return BigInt.asIntN(64, BigInt(`0x${digest}${version}`)) as Fingerprint
}

/** A lone surrogate, an infinite number, a bigint: RFC 8785 has no text for it. */
const noText = (): undefined => undefined

/** Undefined if two different bodies could have the same text. */
function digestOfDecoded({ value, isExact }: Decoded): MaybeAsync<string | undefined> {
  if (!isExact) return undefined
  try {
    const text = smallCanonicalJson(value)
    if (text !== undefined) return digestOf(text)
    const digest = digestOfText(new CanonicalJson(value))
    return digest instanceof Promise ? digest.catch(noText) : digest
  } catch {
    return undefined
  }
}

const digestOf = (bytes: string | Uint8Array): string => hash('sha256', bytes, 'hex')

/** Undefined when there is no text. A long text is hashed in several turns of the event loop. */
function digestOfText(json: CanonicalJson): MaybeAsync<string | undefined> {
  const first = json.next()
  if (first === undefined) return undefined
  return json.isOver ? digestOf(first) : digestOfRest(json, createHash('sha256').update(first))
}

async function digestOfRest(json: CanonicalJson, digest: Hash): Promise<string> {
  for (;;) {
    await nextTurn()
    const piece = json.next()
    if (piece === undefined) return digest.digest('hex')
    digest.update(piece)
  }
}
