import { hash } from '../node.ts'

/** 64 bits: enough to find an event in logs, too few to identify it anywhere else. */
const HEX_DIGITS = 16

/** Block size of SHA-256, bytes. */
const BLOCK = 64

interface Pads {
  readonly inner: Uint8Array
  readonly outer: Uint8Array
}

const padsOfSecret = new WeakMap<Uint8Array, Pads>()

/**
 * The hash that logs and metrics contain instead of the key, because keys are often order numbers or e-mail addresses.
 *
 * Computes HMAC-SHA-256 from two plain hashes. `createHmac` takes ten times as long, because it creates a key object
 * for each call, and this function runs once per delivery.
 *
 * @param secret - `settings.secret` of the inbox, which is the same in all processes, so that their logs match.
 * @see https://www.rfc-editor.org/rfc/rfc2104
 */
export function hashKey(secret: Uint8Array, key: string): string {
  const { inner, outer } = padsOf(secret)
  const digest = hash('sha256', Buffer.concat([inner, Buffer.from(key, 'utf8')]), 'buffer')
  return hash('sha256', Buffer.concat([outer, digest]), 'hex').slice(0, HEX_DIGITS)
}

function padsOf(secret: Uint8Array): Pads {
  const known = padsOfSecret.get(secret)
  if (known !== undefined) return known
  const block = new Uint8Array(BLOCK)
  block.set(secret.length > BLOCK ? hash('sha256', secret, 'buffer') : secret)
  const pads = { inner: block.map((byte) => byte ^ 0x36), outer: block.map((byte) => byte ^ 0x5c) }
  padsOfSecret.set(secret, pads)
  return pads
}
