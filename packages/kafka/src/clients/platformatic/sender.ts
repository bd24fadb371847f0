import type { Producer } from '@platformatic/kafka'
import type { RecordSender, SentRecord } from '../port.ts'

/** Every in-sync replica must have a record before it counts as sent. */
const ALL_REPLICAS = -1

/** Sends with a producer of `@platformatic/kafka`. */
export const senderOf = (producer: Pick<Producer, 'close' | 'send'>): RecordSender => ({
  send: async (topic, records) => {
    const messages = records.map((record) => toMessage(topic, record))
    await producer.send({ messages, acks: ALL_REPLICAS })
  },
  close: () => producer.close(),
})

type ToSend = Parameters<Producer['send']>[0]['messages'][number]

function toMessage(topic: string, { headers, key, partition, value }: SentRecord): ToSend {
  // A header that is repeated has an entry for each value: its names are different buffers.
  const entries = Object.entries(headers).flatMap(([name, given]) =>
    [given].flat().map((value) => [Buffer.from(name), bytesOf(value)] as const),
  )
  return {
    topic,
    ...(key === null ? {} : { key: bytesOf(key) }),
    ...(value === null ? {} : { value: bytesOf(value) }),
    headers: new Map(entries),
    ...(partition === undefined ? {} : { partition }),
  }
}

const bytesOf = (value: Buffer | string): Buffer =>
  typeof value === 'string' ? Buffer.from(value) : value
