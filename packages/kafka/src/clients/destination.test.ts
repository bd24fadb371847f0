import type { OutgoingMessage } from '@onceward/core'
import type { ProducerRecord } from 'kafkajs'
import { expect, test } from 'vitest'
import { protocolError } from '../fixtures/fetch.ts'
import { kafkaDestination } from './destination.ts'

const signal = new AbortController().signal
const outgoing = (text: string, key?: string): OutgoingMessage => ({
  ...{ id: `m-${text}`, key, source: 'billing', type: 'paid', headers: { trace: 't' } },
  ...{ contentType: 'application/json', payload: Buffer.from(text) },
})

/** A destination whose producer answers what the test says. */
function setUp(answer: (record: ProducerRecord) => unknown = () => [{}]) {
  const sent: ProducerRecord[] = []
  const send = async (record: ProducerRecord) => {
    sent.push(record)
    return answer(record) as never
  }
  return { sent, ...kafkaDestination({ send }, { topic: 'payments' }) }
}

test('a message is a record with its key, its bytes and the attributes of CloudEvents', async () => {
  const { publish, sent } = setUp()
  expect(await publish([outgoing('1', 'k'), outgoing('2')], signal)).toEqual([undefined, undefined])
  expect(sent).toEqual([
    {
      ...{ topic: 'payments', acks: -1 },
      messages: [
        {
          ...{ key: 'k', value: Buffer.from('1') },
          headers: {
            ...{ 'content-type': 'application/json', trace: 't', 'idempotency-key': 'm-1' },
            ...{ ce_specversion: '1.0', ce_id: 'm-1', ce_source: 'billing', ce_type: 'paid' },
          },
        },
        expect.objectContaining({ key: null, value: Buffer.from('2') }),
      ],
    },
  ])
})

test('of a batch that is too large only the large message is refused, and its key waits', async () => {
  const { publish } = setUp(({ messages }) => {
    if (messages.some(({ value }) => String(value) === 'large')) {
      throw protocolError('MESSAGE_TOO_LARGE')
    }
    return [{}]
  })
  const messages = [outgoing('1', 'a'), outgoing('large', 'a'), outgoing('3', 'a'), outgoing('4')]
  expect(await publish(messages, signal)).toEqual([
    undefined,
    { refused: expect.objectContaining({ type: 'MESSAGE_TOO_LARGE' }) },
    { unknown: expect.anything() },
    undefined,
  ])
})

// Red before: the call failed, and with it all messages of the look for as long as this one waited.
test.each([
  [
    'kafkajs',
    Object.assign(new Error('Unknown error code 87'), { type: 'KAFKAJS_UNKNOWN_ERROR_CODE' }),
  ],
  ['@platformatic/kafka', Object.assign(new Error('invalid'), { apiId: 'INVALID_RECORD' })],
  ['confluent', Object.assign(new Error('invalid'), { type: 'ERR_INVALID_RECORD', code: 87 })],
])(
  'a record that the broker refuses as invalid, as %s says it, is refused alone',
  async (_client, error) => {
    const { publish } = setUp(({ messages }) => {
      if (messages.some(({ key }) => key === null)) throw error
      return [{}]
    })
    const messages = [outgoing('1', 'a'), outgoing('2'), outgoing('3', 'b')]
    expect(await publish(messages, signal)).toEqual([undefined, { refused: error }, undefined])
  },
)

// Red before: twelve of 100 KB were one request, which no topic takes by default.
test('the messages of a look leave in requests that a topic takes by default', async () => {
  const { publish, sent } = setUp()
  const large = Array.from({ length: 12 }, () => outgoing('x'.repeat(100_000), 'k'))
  expect(await publish(large, signal)).toEqual(large.map(() => undefined))
  expect(sent.map(({ messages }) => messages.length)).toEqual([8, 4])
})

test('what left before a request that fails is confirmed', async () => {
  let calls = 0
  const { publish } = setUp(() => {
    calls += 1
    if (calls === 2) throw protocolError('NOT_ENOUGH_REPLICAS')
    return [{}]
  })
  const large = Array.from({ length: 20 }, () => outgoing('x'.repeat(100_000), 'k'))
  const answers = await publish(large, signal)
  expect(answers.slice(0, 8)).toEqual(large.slice(0, 8).map(() => undefined))
  expect(answers.slice(8)).toEqual(large.slice(8).map(() => ({ down: expect.any(Error) })))
  expect(calls).toBe(2)
})

test('a broker that is down, and a producer that sent nothing, confirm nothing', async () => {
  const down = setUp(() => {
    throw protocolError('NOT_ENOUGH_REPLICAS')
  })
  await expect(down.publish([outgoing('1')], signal)).rejects.toThrow()
  await expect(setUp(() => []).publish([outgoing('1')], signal)).rejects.toThrow('sent nothing')
})

test('what is no producer is refused', () => {
  const wrong = () => kafkaDestination({} as never, { topic: 'payments' })
  expect(wrong).toThrow('Expected kafkaDestination to get a producer of kafkajs')
})
