import { storedKey } from '../messages/event-key.ts'
import type { EventId } from '../model/brands.ts'
import { hash } from '../node.ts'

const LENGTH_BYTES = 4
/** The largest count whose last byte is a character of ASCII. */
const MOST_OF_TEXT = 127
/** The leading 128 bits of the 64 hex digits. */
const ID_HEX_DIGITS = 32

/**
 * The id under which every store keeps an event: the leading 128 bits of SHA-256 over consumer, tenant and key, as a
 * lower-case UUID.
 *
 * The SQL function `onceward.event_id(consumer, tenant, key)` hashes the same bytes: three fields one after the other,
 * each a 4-byte big-endian count of its UTF-8 bytes followed by these bytes. A missing tenant is the empty string,
 * which is four zero bytes. The counts keep ('ab', 'c') and ('a', 'bc') apart.
 * A tenant or key of more than 1,024 bytes is hashed first: see {@link storedKey}. The 16 bytes are written unchanged in
 * groups of 8-4-4-4-12 hex digits, without version or variant bits.
 *
 * @param tenant - `undefined` and `''` are the same: no tenant.
 */
export function eventIdOf(consumer: string, tenant: string | undefined, key: string): EventId {
  const fields = [consumer, storedKey(tenant ?? ''), storedKey(key)]
  // As text where each count is a character, because it is hashed twice as fast.
  let text = ''
  let isText = true
  for (const field of fields) {
    const length = Buffer.byteLength(field)
    isText &&= length <= MOST_OF_TEXT
    text += `\0\0\0${String.fromCharCode(length)}${field}`
  }
  const hex = hash('sha256', isText ? text : bytesOf(fields), 'hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, ID_HEX_DIGITS)}` as EventId
}

function bytesOf(fields: readonly string[]): Uint8Array {
  let size = 0
  for (const field of fields) size += LENGTH_BYTES + Buffer.byteLength(field)
  const bytes = Buffer.allocUnsafe(size)
  let offset = 0
  for (const field of fields) {
    const length = bytes.write(field, offset + LENGTH_BYTES, 'utf8')
    bytes.writeUInt32BE(length, offset)
    offset += LENGTH_BYTES + length
  }
  return bytes
}
