import { hash } from 'node:crypto'
import type { EventId } from '../model/brands.ts'

const LENGTH_BYTES = 4
/** Of the 64 hex digits: 128 bits. */
const ID_HEX_DIGITS = 32

/**
 * The id that all stores key by: the leading 128 bits of SHA-256 over consumer, tenant and key, as a lower-case UUID.
 *
 * Exact bytes, the same as of the SQL function `onceward.event_id(consumer, tenant, key)`: three fields one after
 * the other, each a 4-byte big-endian count of its UTF-8 bytes followed by these bytes. No tenant is the empty
 * string: four zero bytes. The lengths keep ('ab', 'c') and ('a', 'bc') apart. The 16 bytes are written as they are,
 * in groups of 8-4-4-4-12 hex digits; no version or variant bits are set.
 *
 * @param tenant - `undefined` and `''` are the same: no tenant.
 */
export function eventIdOf(consumer: string, tenant: string | undefined, key: string): EventId {
  const fields = [consumer, tenant ?? '', key]
  const size = fields.reduce((sum, field) => sum + LENGTH_BYTES + Buffer.byteLength(field), 0)
  const bytes = Buffer.allocUnsafe(size)
  let offset = 0
  for (const field of fields) {
    const length = bytes.write(field, offset + LENGTH_BYTES, 'utf8')
    bytes.writeUInt32BE(length, offset)
    offset += LENGTH_BYTES + length
  }
  const hex = hash('sha256', bytes, 'hex')
  const group = (from: number, to: number): string => hex.slice(from, to)
  return `${group(0, 8)}-${group(8, 12)}-${group(12, 16)}-${group(16, 20)}-${group(20, ID_HEX_DIGITS)}` as EventId
}
