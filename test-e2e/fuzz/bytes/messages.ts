import type { Message, MessageAttributeValue } from '@aws-sdk/client-sqs'
import { amqpMessage } from '@onceward/amqp'
import type { Delivery } from '@onceward/core'
import { toDelivery as plain } from '@onceward/core/memory'
import { kafkaMessage } from '@onceward/kafka'
import { sqsMessage } from '@onceward/sqs'
import type { ConsumeMessage } from 'amqplib'
import { toDelivery as fromAmqp } from '../../../packages/amqp/src/delivery.ts'
import { toDelivery as fromKafka, type KafkaRecord } from '../../../packages/kafka/src/delivery.ts'
import { toDelivery as fromSqs } from '../../../packages/sqs/src/delivery.ts'
import { bodyOf, SECRET } from './bodies.ts'
import type { Case, Origin } from './plan.ts'

/** The header that may hold the key. */
export const KEY_HEADER = 'fuzz-key'

const DEEP = Array.from({ length: 400 }).reduce<unknown>((inner) => ({ inner }), SECRET)

/** What stands in a header, for a client that passes on anything. */
const VALUES: Readonly<Record<string, unknown>> = {
  text: `${SECRET} é😀`,
  empty: '',
  long: SECRET.repeat(5_000),
  nul: `${SECRET}\0`,
  surrogate: `${SECRET}\ud800`,
  number: 1.5,
  'number-text': '3',
  big: 9_007_199_254_740_993n,
  boolean: true,
  null: null,
  bytes: Buffer.from([0xff, 0, 1]),
  latin1: Buffer.from(`${SECRET} é`, 'latin1'),
  list: [1, SECRET, null, [Buffer.from([0xff])]],
  table: JSON.parse(`{"a":"${SECRET}","__proto__":{"b":null}}`),
  deep: DEEP,
  date: new Date(Number.NaN),
  json: `{"${SECRET}":1}`,
}

type Headers = readonly (readonly [string, unknown])[]

const text = (value: unknown): string => (typeof value === 'string' ? value : String(value))

/** The key, if it stands in a header. Headers hold text, so other types stand in the body alone. */
function keyHeader({ key }: Case): Headers {
  const value: unknown = key.where === 'header' ? JSON.parse(key.json) : undefined
  return typeof value === 'string' ? [[KEY_HEADER, value]] : []
}

/** The delivery that the adapter of the case's broker makes of the client's message. */
export function deliveryOf(one: Case): Delivery {
  const key = one.key.where === 'body' ? one.key.json : 'null'
  const body = bodyOf(one.body, key)
  const drawn = one.headers.map(({ name, value }) => [name, VALUES[value]] as const)
  return MAKERS[one.origin](one, body, [...drawn, ...keyHeader(one)])
}

type Make = (one: Case, body: Buffer, headers: Headers) => Delivery

const MAKERS: Readonly<Record<Origin, Make>> = {
  sqs: ({ name }, body, headers) => {
    const attributes = headers.map(([header, value]) => [header, attributeOf(value)] as const)
    const message: Message = {
      MessageId: name,
      ReceiptHandle: name,
      Body: body.toString('utf8'),
      Attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1700000000000' },
      MessageAttributes: Object.fromEntries(attributes),
    }
    return fromSqs(message, name)
  },
  kafka: ({ name }, value, headers) => {
    const parts = headers.map(([header, part]) => [header, recordHeaderOf(part)] as const)
    const message = {
      ...{ key: Buffer.from(`${name}\xff`, 'latin1'), value, offset: '7', attributes: 0 },
      ...{ timestamp: '1700000000000', headers: Object.fromEntries(parts) },
    } as KafkaRecord['message']
    return fromKafka({ topic: name, partition: 0, message }, 'cluster')
  },
  amqp: ({ name }, content, headers) => {
    const fields = { deliveryTag: 1, redelivered: false, exchange: '', routingKey: name }
    const properties = { headers: Object.fromEntries(headers), messageId: name, deliveryMode: 2 }
    const message = { content, fields: { ...fields, consumerTag: 't' }, properties }
    return fromAmqp(message as unknown as ConsumeMessage, name)
  },
  plain: ({ name }, body, headers) => {
    const texts = headers.map(([header, value]) => [header.toLowerCase(), text(value)] as const)
    const source = { broker: 'own', queue: name, position: '0' }
    return plain(null, { body, headers: Object.fromEntries(texts), source })
  },
}

function attributeOf(value: unknown): MessageAttributeValue {
  if (value instanceof Uint8Array) return { DataType: 'Binary', BinaryValue: value }
  if (typeof value === 'number') return { DataType: 'Number.float', StringValue: String(value) }
  return { DataType: 'String', StringValue: text(value) }
}

const recordHeaderOf = (value: unknown): Buffer | string | (Buffer | string)[] | undefined => {
  if (value === null) return undefined
  if (Buffer.isBuffer(value)) return value
  return Array.isArray(value) ? [Buffer.from([0xff]), SECRET] : Buffer.from(text(value))
}

const READERS: Readonly<Record<Origin, (delivery: Delivery) => unknown>> = {
  sqs: sqsMessage,
  kafka: kafkaMessage,
  amqp: amqpMessage,
  plain: () => undefined,
}

/** The client's message of a delivery, also of a stored one. */
export const messageOf = ({ origin }: Case, delivery: Delivery): unknown =>
  READERS[origin](delivery)
