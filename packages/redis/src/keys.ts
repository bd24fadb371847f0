import { createHash, hash } from 'node:crypto'
import type { EventId, Fingerprint } from '@onceward/core/ports'

/** Where events are stored. Keys begin with the hash tag of their partition, so a script touches one slot. */
export interface Namespace {
  readonly name: string
  /** Length of a generation of done marks, ms; 0 without an inbox. */
  readonly markMs: number
  /** Decides in which bucket a done mark is. A producer that chooses event keys must not know it, or could fill one bucket. */
  readonly bucketSecret: string
  /** How long the key of a claim or a wait outlives its end, ms. */
  readonly keepMs: number
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** `{o:<namespace>:<partition>}e` and the 16 bytes of the id; 256 partitions, by the first byte. */
export function keyOf({ name }: Namespace, id: EventId): Buffer {
  const tag = Buffer.from(`{o:${name}:${partitionOf(id)}}e`, 'latin1')
  return Buffer.concat([tag, Buffer.from(hexOf(id), 'hex')])
}

/** The field of a done mark and its value: the 15 bytes of the id behind its partition, and the fingerprint. */
export function markBytes(id: EventId, fingerprint: Fingerprint): Buffer {
  const bytes = Buffer.allocUnsafe(23)
  bytes.write(hexOf(id).slice(2), 0, 'hex')
  bytes.writeBigInt64BE(BigInt.asIntN(64, fingerprint), 15)
  return bytes
}

/** Buffers silently drop what is not hex. Two events with one key would lose a message. */
function hexOf(id: EventId): string {
  if (!UUID.test(id)) throw new TypeError(`Expected an event id (a UUID), got \`${id}\`.`)
  return id.replaceAll('-', '')
}

/** The key in double quotes, as `redis-cli` takes it. */
export function keyText(namespace: Namespace, id: EventId): string {
  const key = keyOf(namespace, id)
  const bytes = [...key.subarray(-16)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`)
  return `"${key.subarray(0, -16).toString('latin1')}${bytes.join('')}"`
}

/**
 * Buckets of a partition, so 16,384 in all. Redis stores a hash of up to 512 fields (`hash-max-listpack-entries`) in a
 * sixth of the memory of a larger one: enough for eight million marks of a generation. Empty buckets cost nothing, and
 * buckets with one mark each at most six megabytes.
 */
const BUCKETS = 64

/**
 * The two keys that may hold the done mark of an event: for even and for odd generations. Guards with other generations
 * have other keys.
 */
export function bucketKeys(
  { name, markMs, bucketSecret }: Namespace,
  id: EventId,
): readonly string[] {
  const digest = hash('sha256', `${bucketSecret}${id.toLowerCase()}`, 'buffer')
  const bucket = `{o:${name}:${partitionOf(id)}}m${markMs.toString(36)}:${digest.readUInt32BE() % BUCKETS}`
  return [`${bucket}:0`, `${bucket}:1`]
}

/** The id of an event, from its partition and the field of its done mark in hex. */
export function idOf(partition: string, field: string): EventId {
  return `${partition}${field}`.replace(
    /^(.{8})(.{4})(.{4})(.{4})(.{12})$/,
    '$1-$2-$3-$4-$5',
  ) as EventId
}

/** A `SCAN` pattern for the keys that hold the done mark of an event. */
export const marksPattern = ({ name }: Namespace, id: EventId): string =>
  `{o:${name}:${partitionOf(id)}}m*`

export const partitionOf = (id: EventId): string => id.slice(0, 2).toLowerCase()

export function fingerprintBytes(fingerprint: Fingerprint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(BigInt.asIntN(64, fingerprint))
  return bytes
}

/**
 * Binds a namespace to one history of PostgreSQL, so that marks of another history are not found. The identity holds the
 * random epoch of the settings, so the secret of the buckets is made of it.
 */
export function boundTo(identity: string, namespace: Namespace): Namespace {
  const digest = createHash('sha256').update(identity).digest('base64url')
  return {
    ...namespace,
    name: `${namespace.name}.${digest.slice(0, 16)}`,
    bucketSecret: digest.slice(16),
  }
}
