import type { Cluster } from 'kafkajs'
import type { TopicIds, TopicLook } from '../port.ts'

const METADATA = 3
/** The first version of the request that asks by name and answers with ids (Kafka 3.1). */
const VERSION = 12
const UNKNOWN_TOPIC = 3
const DENIED = 29

/** Parts of kafkajs' cluster and broker that its types leave out. */
interface Pool {
  readonly brokerPool: { findConnectedBroker(): Promise<Partial<Wire>> }
}

interface Wire {
  readonly versions: Readonly<Record<number, { readonly maxVersion: number } | undefined>>
  readonly connectionPool: {
    send(exchange: {
      readonly request: object
      readonly response: {
        decode(payload: Buffer): Promise<object>
        parse(decoded: object): Promise<unknown>
      }
    }): Promise<unknown>
  }
}

/**
 * The ids of a cluster and of topics in it. Undefined if the broker is too old, or if kafkajs' internals have changed.
 *
 * kafkajs supports Metadata up to version 6, which has no topic ids. It does not notice that a topic was deleted and
 * created again, and continues at its old position (brokers.md K23). For the cluster's id, or the names of all topics, it
 * asks for every topic, and fails if a single one has no leader. So the request is encoded here and sent on kafkajs'
 * connection. Rejects when the broker does not answer.
 *
 * @param topics - Names, or all topics that this client may describe.
 * @see https://kafka.apache.org/protocol#The_Messages_Metadata
 */
export async function topicIds(
  cluster: Cluster,
  topics: readonly string[] | 'all',
): Promise<TopicIds | undefined> {
  // Works before the first subscription too, when kafkajs knows only the broker that it connected to.
  const { brokerPool } = cluster as Cluster & Partial<Pool>
  const { versions, connectionPool } = (await brokerPool?.findConnectedBroker()) ?? {}
  if ((versions?.[METADATA]?.maxVersion ?? 0) < VERSION) return undefined
  if (typeof connectionPool?.send !== 'function') return undefined
  const body = encode(topics)
  const answer = await connectionPool.send({
    request: {
      apiKey: METADATA,
      apiVersion: VERSION,
      apiName: 'Metadata',
      // Only these two fields of an encoder are used by kafkajs.
      encode: async () => ({ buf: body, buffer: body }),
    },
    response: {
      decode: async (payload) => decode(payload),
      parse: async (decoded) => decoded,
    },
  })
  return answer as TopicIds
}

/** For {@link TopicWatch}. If the broker is too old for ids, all topics are listed without any. */
export const lookOf =
  (cluster: Cluster): TopicLook =>
  async (topics) => {
    const answer = await topicIds(cluster, topics)
    if (answer !== undefined || topics !== 'all') return answer
    const { topicMetadata } = await cluster.metadata()
    const ids = new Map(topicMetadata.map(({ topic }) => [topic, '']))
    return { clusterId: undefined, ids, missing: new Set(), denied: new Set() }
  }

const NO_TAGS = Buffer.from([0])

/** No list means all topics. */
const NULL = Buffer.from([0])

function encode(topics: readonly string[] | 'all'): Buffer {
  const asked = topics === 'all' ? [NULL] : [varint(topics.length + 1), ...named(topics)]
  // The header's tags come first, because kafkajs ends the header before them. The flags: create no topics, list no
  // operations.
  return Buffer.concat([NO_TAGS, ...asked, Buffer.from([0, 0]), NO_TAGS])
}

function named(topics: readonly string[]): readonly Buffer[] {
  const noId = Buffer.alloc(16)
  return topics.flatMap((topic) => {
    const name = Buffer.from(topic)
    return [noId, varint(name.length + 1), name, NO_TAGS]
  })
}

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return Buffer.from([...bytes, rest])
}

function decode(payload: Buffer): TopicIds {
  const reader = new Reader(payload)
  reader.tags()
  reader.skip(4)
  reader.each(() => {
    reader.skip(4)
    reader.text()
    reader.skip(4)
    reader.text()
    reader.tags()
  })
  const clusterId = reader.text()
  reader.skip(4)
  const ids = new Map<string, string>()
  const missing = new Set<string>()
  const denied = new Set<string>()
  reader.each(() => {
    const errorCode = reader.bytes(2).readInt16BE()
    const name = reader.text()
    const id = reader.bytes(16).toString('hex')
    reader.skip(1)
    reader.each(() => partition(reader))
    reader.skip(4)
    reader.tags()
    if (errorCode === 0 && name !== undefined) ids.set(name, id)
    if (errorCode === UNKNOWN_TOPIC && name !== undefined) missing.add(name)
    if (errorCode === DENIED && name !== undefined) denied.add(name)
  })
  return { clusterId, ids, missing, denied }
}

function partition(reader: Reader): void {
  reader.skip(2 + 4 + 4 + 4)
  for (let list = 0; list < 3; list += 1) reader.each(() => reader.skip(4))
  reader.tags()
}

/** Reads the compact types of the protocol: a length is sent as one more than it is, and zero means null. */
class Reader {
  readonly #payload: Buffer
  #at = 0

  constructor(payload: Buffer) {
    this.#payload = payload
  }

  skip(bytes: number): void {
    this.#at += bytes
  }

  bytes(length: number): Buffer {
    const start = this.#at
    this.skip(length)
    return this.#payload.subarray(start, this.#at)
  }

  text(): string | undefined {
    const length = this.#varint()
    return length === 0 ? undefined : this.bytes(length - 1).toString()
  }

  each(read: () => void): void {
    for (let left = this.#varint(); left > 1; left -= 1) read()
  }

  tags(): void {
    for (let left = this.#varint(); left > 0; left -= 1) {
      this.#varint()
      this.skip(this.#varint())
    }
  }

  #varint(): number {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const byte = this.#payload.readUInt8(this.#at)
      this.#at += 1
      value |= (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
}
