import { messageHash } from '@onceward/core/adapter'
import type { ConsumeMessage } from 'amqplib'
import { expect, test } from 'vitest'
import { amqpMessage, copyOptions, deferralHeaders, fromAmqpMessage } from './delivery.ts'
import { message } from './fixtures/recording-channel.ts'

type Headers = Readonly<Record<string, unknown>>

/** What a broker writes on a message that it dead-letters; it counts on from what is there. */
function deadLettered(headers: Headers = {}): Headers {
  const [death] = (headers['x-death'] ?? []) as readonly { readonly count: number }[]
  return {
    ...headers,
    'x-death': [{ count: (death?.count ?? 0) + 1, queue: 'orders.retry.1000', reason: 'expired' }],
    'x-first-death-queue': headers['x-first-death-queue'] ?? 'orders.retry.1000',
    'x-last-death-reason': 'expired',
  }
}

/** The message after its stay in a delay queue, as the consumer gets it. */
function deferred(received: ConsumeMessage): ConsumeMessage {
  const original = fromAmqpMessage(received, 'orders').raw as ConsumeMessage
  const options = copyOptions(original, deferralHeaders(received, original))
  // The broker refuses a message whose BCC is no list, and routes others to its queues.
  expect(options.headers).not.toHaveProperty('BCC')
  const headers = deadLettered({ ...options.headers, 'x-onceward-publish-id': 'p-1' })
  return message('k', { exchange: '', routingKey: 'orders' }, { ...options, headers } as never)
}

const NAMES = [
  ...[
    'Idempotency-Key',
    'x-mine',
    'CC',
    'BCC',
    'x-death',
    'x-first-death-queue',
    'x-last-death-reason',
  ],
  ...['x-onceward-reason', 'X-Onceward-Key', 'x-onceward-exchange', 'x-onceward-kept-headers'],
  ...['x-onceward-publish-id', '__proto__x', 'toString'],
]
const VALUES = ['text', 7, true, ['a', 1], { a: { b: [null] } }, [{ count: 3, reason: 'rejected' }]]

/** Every name alone with every value, all names together, and none. */
const CASES: readonly Headers[] = [
  ...NAMES.flatMap((name) => VALUES.map((value) => ({ [name]: value }))),
  ...VALUES.map((value) => Object.fromEntries(NAMES.map((name) => [name, value]))),
  {},
]

// Red when a copy drops or adds a header: a consumer that counts by x-death is fooled, or headers grow with each turn.
test('a message comes back from each deferral with exactly its own headers', () => {
  for (const headers of CASES) {
    const first = message('k', { exchange: 'shop', routingKey: 'placed' }, { headers } as never)
    const sizes: number[] = []
    let received = first
    for (let turn = 1; turn <= 3; turn += 1) {
      received = deferred(received)
      const delivery = fromAmqpMessage(received, 'orders')
      const { fields, properties } = amqpMessage(delivery) as ConsumeMessage
      expect(properties.headers).toStrictEqual(headers)
      expect(fields).toMatchObject({ exchange: 'shop', routingKey: 'placed' })
      expect(delivery.headers).toEqual(fromAmqpMessage(first, 'orders').headers)
      expect(delivery.deliveryCount).toBe(1 + turn)
      // A refused message has one row, however often it was deferred.
      expect(messageHash('billing', delivery)).toBe(
        messageHash('billing', fromAmqpMessage(first, 'orders')),
      )
      sizes.push(JSON.stringify(received.properties.headers).length)
    }
    expect(new Set(sizes).size).toBe(1)
  }
})

test('the counters of a stay in a queue do not come back: the next stay has its own', () => {
  const headers = { 'x-delivery-count': 3, 'x-acquired-count': 4, 'x-mine': 'kept' }
  const back = fromAmqpMessage(deferred(message('k', {}, { headers } as never)), 'orders')
  expect(amqpMessage(back)?.properties.headers).toEqual({ 'x-mine': 'kept' })
  expect(back.deliveryCount).toBe(2)
})

// Red when the copy's own delivery mode comes back, which must be 2: its dead letter would not be what was published.
test.each([undefined, 1, 2])('a message of delivery mode %s comes back with it', (deliveryMode) => {
  const first = message('k', {}, { deliveryMode })
  const back = deferred(first)
  const stayed = { ...back, properties: { ...back.properties, deliveryMode: 2 } }
  const delivery = fromAmqpMessage(stayed, 'orders')
  expect(amqpMessage(delivery)?.properties.deliveryMode).toBe(deliveryMode)
})

// Red when a text is taken for a table: its characters become headers of the message.
test.each([['text'], [[1, 2]], [7], [null], [Buffer.from('bytes')]])(
  'kept headers that a publisher wrote as %j are none',
  (kept) => {
    const headers = { mine: 'x', 'x-onceward-deferrals': 1, 'x-onceward-kept-headers': kept }
    const delivery = fromAmqpMessage(message('k', {}, { headers } as never), 'orders')
    expect(amqpMessage(delivery)?.properties.headers).toEqual({ mine: 'x' })
  },
)

// All headers must fit into one frame.
test('no header is carried twice on a copy', () => {
  const headers = { mine: 'x', 'x-first-death-queue': 'q', nothing: undefined }
  const kept = message('k', {}, { headers })
  expect(deferralHeaders(kept, kept)).toStrictEqual({
    'x-onceward-deferrals': 1,
    'x-onceward-delivery-name': expect.any(String),
    'x-onceward-kept-headers': { 'x-first-death-queue': 'q' },
  })
  const plain = message('k', {}, { messageId: 'm-1' })
  expect(deferralHeaders(plain, plain)).toStrictEqual({ 'x-onceward-deferrals': 1 })
  expect(Object.keys(copyOptions(kept, {}).headers as object)).not.toContain('nothing')
})
