import { createHash } from 'node:crypto'
import type { EventId, Fingerprint } from '@onceward/core'

/** Where events are kept: keys begin with the tag of their partition, so that a script touches one slot. */
export interface Namespace {
  readonly name: string
  /** Length of a generation of done marks, ms; 0 without an inbox. */
  readonly markMs: number
  /** How long a claim or a wait is kept beyond its end, ms. */
  readonly keepMs: number
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** `{o:<namespace>:<partition>}e` and the 16 bytes of the id; 256 partitions, by the first byte. */
export function keyOf({ name }: Namespace, id: EventId): Buffer {
  // Anything but hex would be cut silently, and two events with one key are a lost message.
  if (!UUID.test(id)) throw new TypeError(`Expected an event id (a UUID), got \`${id}\`.`)
  const tag = Buffer.from(`{o:${name}:${partitionOf(id)}}e`, 'latin1')
  return Buffer.concat([tag, Buffer.from(id.replaceAll('-', ''), 'hex')])
}

/** As `redis-cli` takes it, in double quotes. */
export function keyText(namespace: Namespace, id: EventId): string {
  const key = keyOf(namespace, id)
  const bytes = [...key.subarray(-16)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`)
  return `"${key.subarray(0, -16).toString('latin1')}${bytes.join('')}"`
}

/** The keys that the done mark of an event needs, as a pattern of `SCAN`. */
export const marksPattern = ({ name }: Namespace, id: EventId): string =>
  `{o:${name}:${partitionOf(id)}}[gm]*`

export const partitionOf = (id: EventId): string => id.slice(0, 2).toLowerCase()

export function fingerprintBytes(fingerprint: Fingerprint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(BigInt.asIntN(64, fingerprint))
  return bytes
}

/** Binds a namespace to a history of Postgres: what was done in another one is not found. */
export function boundName(name: string, identity: string): string {
  return `${name}.${createHash('sha256').update(identity).digest('base64url').slice(0, 16)}`
}
