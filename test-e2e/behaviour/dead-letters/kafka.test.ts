// @module-tag nightly

import { consumeKafka, fromKafkaMessage, type KafkaRecord, kafkaMessage } from '@onceward/kafka'
import { kafka, skipped } from '@onceward/testing'
import { type IHeaders, Kafka, logLevel, type Message } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { kafkaAddress } from '../../brokers/kafka/queue.ts'
import { freshName } from '../../brokers/queue-under-test.ts'
import {
  diesWhole,
  diesWholeAgain,
  ID,
  type Letters,
  returnsWhole,
  withoutReasons,
} from './equal-messages.ts'

const bytes = Buffer.from([0xff, 0, 0xfe])
const none = Buffer.alloc(0)
const HEADERS: IHeaders = {
  ...{ bytes, empty: none, text: 'ä\u{1f600}', Trace: 'a', trace: 'b' },
  repeated: ['1', bytes, none, '1'],
  [`${'n'.repeat(255)}`]: 'long name',
  'x-onceward-own': 'kept',
  'x-onceward-reason': 'of an earlier death',
}
/** Names that an object of JavaScript has already, that are empty, or that are another name in lower case. */
const ODD_NAMES: IHeaders = Object.fromEntries([
  ...['', ' ', '__proto__', 'constructor', 'toString', '0', 'ä\u{1f600}\0'].map((name) => [
    name,
    bytes,
  ]),
  ...['Content-Type', 'content-type'].map((name) => [name, [none, 'a', bytes, none]]),
])
const LARGEST = 32 * 1024 * 1024
const MESSAGES: readonly Message[] = [
  { key: null, value: null, headers: {} },
  { key: none, value: none },
  { key: bytes, value: bytes, headers: HEADERS },
  { key: 'text', value: null, headers: { some: 'header' } },
  { key: null, value: none, headers: { large: Buffer.alloc(1024 * 1024, 'x') } },
  { key: 'odd names', value: 'text', headers: ODD_NAMES },
  { key: 'large', value: Buffer.alloc(20 * 1024 * 1024, 'onceward \u{1f600} '), headers: HEADERS },
]

describe.skipIf(skipped('kafka'))('a dead letter of Kafka', () => {
  let server: Awaited<ReturnType<typeof kafka>>
  beforeAll(async () => {
    server = await kafka({ settings: { 'broker.session.timeout.ms': '9000' } })
  })
  afterAll(() => server?.stop())

  async function send(): Promise<Letters<KafkaRecord> & AsyncDisposable> {
    const client = new Kafka({ ...server.connection, logLevel: logLevel.NOTHING })
    const admin = client.admin()
    const producer = client.producer()
    await Promise.all([admin.connect(), producer.connect()])
    const topic = freshName()
    const dead = `${topic}-dead`
    const configEntries = [{ name: 'max.message.bytes', value: String(LARGEST) }]
    await admin.createTopics({
      waitForLeaders: true,
      topics: [topic, dead].map((name) => ({ topic: name, numPartitions: 1, configEntries })),
    })
    for (const [index, message] of MESSAGES.entries()) {
      const headers = { ...message.headers, [ID]: String(index) }
      await producer.send({ topic, acks: -1, messages: [{ ...message, headers }] })
    }
    const published = new Map<string, KafkaRecord>()
    const reader = client.consumer({ groupId: `${topic}-reader` })
    await reader.connect()
    await reader.subscribe({ topics: [dead], fromBeginning: true })
    await reader.run({
      eachMessage: async ({ topic, partition, message }) => {
        // kafkajs mixes members of Object.prototype into headers that are called like them; a delivery has none.
        const record = kafkaMessage(fromKafkaMessage({ topic, partition, message }))
        if (record !== undefined) published.set(String(message.headers?.[ID]), record)
      },
    })
    return {
      sent: MESSAGES.length,
      consume: (guard, publishes) =>
        consumeKafka(client, guard, {
          topics: [topic],
          groupId: topic,
          fromBeginning: true,
          ...(publishes ? { deadLetter: { producer, topic: dead } } : {}),
        }),
      messageOf: kafkaMessage,
      published: async () => published,
      expectSame,
      operator: kafkaAddress(server.connection),
      expectReturned,
      [Symbol.asyncDispose]: async () => {
        await Promise.all([admin.disconnect(), producer.disconnect(), reader.disconnect()])
      },
    }
  }

  // Red when a dead letter is made of the text in its row.
  test('has the key, the value and every header of its record', async () => {
    await using letters = await send()
    await diesWhole(letters)
  })

  test('has them too after a restart, from the row, and so has its replay', async () => {
    await using letters = await send()
    await diesWholeAgain(letters)
  })

  test('goes back to its topic and partition as it came', async () => {
    await using letters = await send()
    await returnsWhole(letters)
  })
})

function expectReturned(returned: KafkaRecord, original: KafkaRecord): void {
  expect([returned.topic, returned.partition]).toEqual([original.topic, original.partition])
  const [message, before] = [returned.message, original.message]
  expect(message.key).toEqual(before.key)
  expect(message.value === null).toBe(before.value === null)
  expect(Buffer.compare(message.value ?? none, before.value ?? none)).toBe(0)
  const { 'x-onceward-reason': _reason, ...headers } = before.headers ?? {}
  expect(message.headers).toEqual(headers)
  expect(Object.keys(message.headers ?? {})).toEqual(Object.keys(headers))
}

function expectSame({ message: letter }: KafkaRecord, { message: original }: KafkaRecord): void {
  expect(letter.key).toEqual(original.key)
  expect(letter.value === null).toBe(original.value === null)
  expect(Buffer.compare(letter.value ?? none, original.value ?? none)).toBe(0)
  const own = withoutReasons(original.headers ?? {})
  expect(withoutReasons(letter.headers ?? {})).toEqual(own)
  expect(Object.keys(withoutReasons(letter.headers ?? {}))).toEqual(Object.keys(own))
  expect(letter.headers?.['x-onceward-own']).toEqual(original.headers?.['x-onceward-own'])
  expect(String(letter.headers?.['x-onceward-reason'])).toBe('fatal')
}
