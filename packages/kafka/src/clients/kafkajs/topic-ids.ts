import { createRequire } from 'node:module'
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

/** What is used of kafkajs' own encoder and decoder, which it does not export. */
interface Encoder {
  readonly buffer: Buffer
  writeInt8(value: number): Encoder
  writeUVarInt(value: number): Encoder
  writeBuffer(value: Buffer): Encoder
  writeUVarIntString(value: string): Encoder
}
interface Decoder {
  readInt16(): number
  readUVarInt(): number
  readUVarIntString(): string | null
  readUVarIntArray(read: () => void): unknown
  readBytes(length: number): Buffer
  forward(bytes: number): void
}

const ofKafkajs = createRequire(import.meta.url)
const protocol = 'kafkajs/src/protocol'

function encode(topics: readonly string[] | 'all'): Buffer {
  const Made = ofKafkajs(`${protocol}/encoder`) as new () => Encoder
  // The header's tags come first, because kafkajs ends the header before them. No list means all topics.
  const encoder = new Made().writeInt8(0).writeUVarInt(topics === 'all' ? 0 : topics.length + 1)
  for (const topic of topics === 'all' ? [] : topics) {
    encoder.writeBuffer(Buffer.alloc(16)).writeUVarIntString(topic).writeInt8(0)
  }
  // Create no topics, list no operations, no tags.
  return encoder.writeInt8(0).writeInt8(0).writeInt8(0).buffer
}

function decode(payload: Buffer): TopicIds {
  const Made = ofKafkajs(`${protocol}/decoder`) as new (payload: Buffer) => Decoder
  const decoder = new Made(payload)
  // That of kafkajs takes a field of tags for shorter than it is.
  const tags = (): void => {
    for (let left = decoder.readUVarInt(); left > 0; left -= 1) {
      decoder.readUVarInt()
      decoder.forward(decoder.readUVarInt())
    }
  }
  tags()
  decoder.forward(4)
  decoder.readUVarIntArray(() => {
    decoder.forward(4)
    decoder.readUVarIntString()
    decoder.forward(4)
    decoder.readUVarIntString()
    tags()
  })
  const clusterId = decoder.readUVarIntString() ?? undefined
  decoder.forward(4)
  const ids = new Map<string, string>()
  const missing = new Set<string>()
  const denied = new Set<string>()
  decoder.readUVarIntArray(() => {
    const errorCode = decoder.readInt16()
    const name = decoder.readUVarIntString()
    const id = decoder.readBytes(16).toString('hex')
    decoder.forward(1)
    decoder.readUVarIntArray(() => {
      decoder.forward(2 + 4 + 4 + 4)
      for (let list = 0; list < 3; list += 1) decoder.readUVarIntArray(() => decoder.forward(4))
      tags()
    })
    decoder.forward(4)
    tags()
    if (name === null) return
    if (errorCode === 0) ids.set(name, id)
    if (errorCode === UNKNOWN_TOPIC) missing.add(name)
    if (errorCode === DENIED) denied.add(name)
  })
  return { clusterId, ids, missing, denied }
}
