import { ConfigurationError, type Delivery } from '@onceward/core'
import { Kafka, type ProducerConfig, type ProducerRecord } from 'kafkajs'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { toDelivery } from './delivery.ts'
import { clusterOf, type HandMadeCluster } from './fixtures/cluster.ts'
import { message, protocolError } from './fixtures/fetch.ts'
import { operate } from './operator.ts'

const at = (params = 'topic=orders') =>
  operate({ url: 'kafka://host:9092', params: new URLSearchParams(params), env: {} })

let cluster: HandMadeCluster
/** For a test to change. */
let answer: () => Promise<unknown>
/** The same. */
let connecting: () => Promise<unknown>
/** Calls of producers, in order. */
let calls: (readonly [name: string, given?: unknown])[]
beforeEach(() => {
  cluster = clusterOf({ orders: { replicas: [1, 1] } })
  answer = async () => [{}]
  connecting = async () => undefined
  calls = []
})

// The clients of kafkajs that an operator makes.
beforeEach(() => {
  vi.spyOn(Kafka.prototype, 'admin').mockImplementation((config) => cluster.kafka.admin(config))
  vi.spyOn(Kafka.prototype, 'producer').mockImplementation((config?: ProducerConfig) => {
    calls.push(['producer', config])
    const producer: object = {
      connect: async () => {
        calls.push(['connect'])
        return connecting()
      },
      send: async (record: ProducerRecord) => {
        calls.push(['send', record])
        return answer()
      },
      disconnect: async () => void calls.push(['disconnect']),
    }
    return producer as never
  })
})
afterEach(() => {
  vi.restoreAllMocks()
})

const source = { broker: 'kafka', queue: 'orders' }

describe('a message that is sent', () => {
  const live = (partition: number): Delivery =>
    toDelivery({ topic: 'orders', partition, message: message(40, 'a') }, 'cluster-1')
  const { raw: _raw, envelope: _envelope, ...bare } = live(0)
  const key = Buffer.from('a')
  const headers = { 'Idempotency-Key': Buffer.from('a-40') }

  // A topic that was created again may have fewer partitions: kafkajs drops a record for one that is not there.
  test.each<[string, Delivery, object]>([
    ['of a partition that is there', live(1), { key, headers, partition: 1 }],
    ['of a partition that is gone', live(2), { key, headers }],
    ['without its record', bare, { key: bare.orderingKey, headers: bare.headers }],
  ])('%s goes to its topic', async (_what, delivery, rest) => {
    const broker = at()
    await broker.ready(source)
    await broker.send(delivery)
    await broker.send(delivery)
    await broker[Symbol.asyncDispose]()
    const record = { value: Buffer.from('{"key":"a"}'), ...rest }
    const sent = ['send', { topic: 'orders', acks: -1, messages: [record] }]
    expect(calls).toEqual([
      ['producer', { allowAutoTopicCreation: false }],
      ['connect'],
      sent,
      sent,
      ['disconnect'],
    ])
  })

  test.each(['MESSAGE_TOO_LARGE', 'UNKNOWN_TOPIC_OR_PARTITION', 'TOPIC_AUTHORIZATION_FAILED'])(
    'and refused with %s is certainly not in the topic',
    async (type) => {
      const refusal = protocolError(type)
      answer = () => Promise.reject(refusal)
      await using broker = at()
      const sending = broker.send(live(0))
      await expect(sending).rejects.toThrow(ConfigurationError)
      await expect(sending).rejects.toMatchObject({
        message: expect.stringMatching(new RegExp(`broker refused the message \\(.*${type}`)),
        cause: refusal,
      })
    },
  )

  test('may be in the topic after another error', async () => {
    const silence = protocolError('REQUEST_TIMED_OUT')
    answer = () => Promise.reject(silence)
    await using broker = at()
    await expect(broker.send(live(0))).rejects.toBe(silence)
  })

  // Red when it counts as perhaps sent: a refused message could not be requeued any more.
  test('is certainly not in the topic without a connection, and the next one opens another', async () => {
    const refusal = protocolError('SASL_AUTHENTICATION_FAILED')
    connecting = () => Promise.reject(refusal)
    const broker = at()
    const sending = broker.send(live(0))
    await expect(sending).rejects.toThrow(ConfigurationError)
    await expect(sending).rejects.toMatchObject({ cause: refusal })
    connecting = async () => undefined
    await broker.send(live(0))
    await broker[Symbol.asyncDispose]()
    expect(calls.map(([name]) => name)).toEqual([
      ...['producer', 'connect', 'producer', 'connect', 'send', 'disconnect'],
    ])
  })
})
