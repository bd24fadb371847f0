import type { Message, Producer } from 'kafkajs'

/** A record to be sent. A header that is repeated has a list. */
export interface SentRecord {
  readonly key: Buffer | string | null
  readonly value: Buffer | string | null
  readonly headers: Readonly<Record<string, SentHeader>>
  readonly partition?: number
}

export type SentHeader = Buffer | string | (Buffer | string)[]

/** Sends records with acks of all in-sync replicas. */
export interface RecordSender {
  /** Resolves when all of them are stored. */
  send(topic: string, records: readonly SentRecord[]): Promise<void>
}

/** A producer of kafkajs, or the compatible one of `@confluentinc/kafka-javascript`. */
export type KafkajsProducer = Pick<Producer, 'send'>

/** A producer of `@platformatic/kafka` that takes bytes: one without serializers. */
export interface PlatformaticProducer {
  send(options: {
    readonly messages: PlatformaticMessage[]
    readonly acks?: number
  }): Promise<unknown>
  initIdempotentProducer(...given: never[]): unknown
}

interface PlatformaticMessage {
  readonly topic: string
  readonly key?: Buffer
  readonly value?: Buffer
  readonly headers?: Map<Buffer, Buffer>
  readonly partition?: number
}

/** What {@link senderThrough} takes. */
export type KafkaProducer = KafkajsProducer | PlatformaticProducer

/** Every in-sync replica must have a record before it counts as sent. */
const ALL_REPLICAS = -1

/** A sender of our own in the place of a producer of the user. */
export const producerOf = (sender: RecordSender): KafkajsProducer => ({
  send: async ({ messages, topic }) => {
    await sender.send(topic, messages as readonly SentRecord[])
    return undefined as never
  },
})

/** Sends with a producer of the user, whichever client it is of. */
export function senderThrough(producer: KafkaProducer): RecordSender {
  if (isPlatformatic(producer)) return throughPlatformatic(producer)
  return isConfluent(producer) ? throughConfluent(producer) : throughKafkajs(producer)
}

const isPlatformatic = (producer: KafkaProducer): producer is PlatformaticProducer =>
  typeof Reflect.get(producer, 'initIdempotentProducer') === 'function'

/** Of a producer or a consumer: the compatible client of `@confluentinc/kafka-javascript`, which looks like kafkajs. */
export const isConfluent = (client: unknown): boolean =>
  typeof client === 'object' &&
  client !== null &&
  typeof Reflect.get(client, 'dependentAdmin') === 'function'

/** It refuses `acks` for a call. Its default is all in-sync replicas. */
const throughConfluent = (producer: KafkajsProducer): RecordSender => ({
  send: async (topic, records) => {
    const messages = records.map((each) => ({ ...each })) as Message[]
    await producer.send({ topic, messages })
  },
})

const throughKafkajs = (producer: KafkajsProducer): RecordSender => ({
  send: async (topic, records) => {
    const messages = records as readonly Message[]
    refuseUnsent(topic, await producer.send({ topic, acks: ALL_REPLICAS, messages: [...messages] }))
  },
})

/**
 * kafkajs drops a record whose partition the topic does not have, and answers as if it were stored: a list without an
 * entry. Only a partitioner can name such a partition.
 */
function refuseUnsent(topic: string, answer: unknown): void {
  if (!Array.isArray(answer) || answer.length > 0) return
  throw new Error(
    `kafkajs sent nothing to '${topic}': the partitioner of its producer named a partition that the topic does not ` +
      'have. Let `createPartitioner` answer the number of a partition, for records without a key too.',
  )
}

const throughPlatformatic = (producer: PlatformaticProducer): RecordSender => ({
  send: async (topic, records) => {
    const messages = records.map((record) => platformaticMessage(topic, record))
    await producer.send({ messages, acks: ALL_REPLICAS })
  },
})

function platformaticMessage(
  topic: string,
  { headers, key, partition, value }: SentRecord,
): PlatformaticMessage {
  // A header that is repeated has an entry for each value: its names are different buffers.
  const entries = Object.entries(headers).flatMap(([name, given]) =>
    [given].flat().map((one) => [Buffer.from(name), bytesOf(one)] as const),
  )
  return {
    ...{ topic, headers: new Map(entries) },
    ...(key === null ? {} : { key: bytesOf(key) }),
    ...(value === null ? {} : { value: bytesOf(value) }),
    ...(partition === undefined ? {} : { partition }),
  }
}

const bytesOf = (value: Buffer | string): Buffer =>
  typeof value === 'string' ? Buffer.from(value) : value
