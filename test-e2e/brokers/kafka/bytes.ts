import { kafkaMessage } from '@onceward/kafka'
import { type KafkaRecord, toDelivery } from '../../../packages/kafka/src/delivery.ts'
import { SECRET } from '../../fuzz/bytes/bodies.ts'
import { type MessageMaker, textOf } from '../../fuzz/bytes/message-maker.ts'

/** Records as kafkajs fetches them. */
export const kafkaBytes: MessageMaker = {
  toDelivery: (name, value, headers) => {
    const parts = headers.map(([header, part]) => [header, recordHeaderOf(part)] as const)
    const message = {
      ...{ key: Buffer.from(`${name}\xff`, 'latin1'), value, offset: '7', attributes: 0 },
      ...{ timestamp: '1700000000000', headers: Object.fromEntries(parts) },
    } as KafkaRecord['message']
    return toDelivery({ topic: name, partition: 0, message }, 'cluster')
  },
  messageOf: kafkaMessage,
}

const recordHeaderOf = (value: unknown): Buffer | string | (Buffer | string)[] | undefined => {
  if (value === null) return undefined
  if (Buffer.isBuffer(value)) return value
  return Array.isArray(value) ? [Buffer.from([0xff]), SECRET] : Buffer.from(textOf(value))
}
