import { cloudEventKey, messageId } from '@onceward/core'
import { expect, test } from 'vitest'
import {
  amqpMessage,
  copyOptions,
  createAccept,
  deferralHeaders,
  fromAmqpMessage,
  storedOptions,
  toDelivery,
} from './delivery.ts'
import { message } from './fixtures/recording-channel.ts'

test('a delivery contains everything that RabbitMQ knows of a message', () => {
  const received = message(
    'k-1',
    { redelivered: true, exchange: 'shop', routingKey: 'orders.placed' },
    {
      messageId: 'm-1',
      contentType: 'application/json',
      timestamp: 1_700_000_000,
      headers: {
        'Idempotency-Key': Buffer.from('k-1'),
        'X-Order-Key': 'ignored',
        'x-order-key': 'customer-7',
        'x-delivery-count': 2,
        count: 7,
        urgent: true,
        table: { a: 1 },
        list: ['a'],
        bytes: Buffer.from([0xff, 0]),
        nothing: null,
        __proto__x: 'kept',
      },
    },
  )
  expect(fromAmqpMessage(received, 'orders')).toEqual({
    body: received.content,
    headers: {
      'idempotency-key': 'k-1',
      'x-order-key': 'customer-7',
      'x-delivery-count': '2',
      count: '7',
      urgent: 'true',
      __proto__x: 'kept',
    },
    source: { broker: 'amqp', queue: 'orders' },
    contentType: 'application/json',
    messageId: 'm-1',
    orderingKey: 'customer-7',
    producedAt: new Date(1_700_000_000_000),
    deliveryCount: 3,
    redelivered: true,
    envelope: expect.any(Uint8Array),
    raw: received,
  })
})

test('a delivery for a loop of your own has the same content as that of a wrap', () => {
  const received = message('k-1', { redelivered: true })
  const source = { broker: 'amqp', queue: 'orders' }
  expect(fromAmqpMessage(received, 'orders')).toEqual(toDelivery(received, source))
})

test.each([
  ['the first delivery', false, undefined, 1],
  ['a redelivery of a classic queue', true, undefined, 2],
  ['a redelivery of a quorum queue', true, 4, 5],
])('the delivery count of %s is right', (_what, redelivered, count, expected) => {
  const headers = count === undefined ? {} : { 'x-delivery-count': count }
  const delivery = fromAmqpMessage(message('k', { redelivered }, { headers }), 'orders')
  expect(delivery).toMatchObject({ deliveryCount: expected, redelivered })
})

// Red when the key is only the message id: two publishers that count from one would lose events.
test('the key of a message id includes the application that set it', () => {
  const idOf = (properties: object) =>
    messageId()({ ...fromAmqpMessage(message('k', {}, properties), 'orders'), payload: undefined })
  expect(idOf({ messageId: '1' })).toBe('1')
  expect(idOf({ messageId: '1', appId: 'shop' })).toBe('4:shop:1')
  expect(idOf({ messageId: '1', appId: 'shop:1' })).not.toBe(
    idOf({ messageId: '1:1', appId: 'shop' }),
  )
  expect(idOf({ messageId: undefined, appId: 'shop' })).toBeUndefined()
})

test.each(['cloudEvents:', 'cloudEvents_', 'ce-', 'ce_'])(
  'a CloudEvent with headers that begin with %s gets its key',
  (prefix) => {
    const headers = { [`${prefix}source`]: '/shop', [`${prefix}id`]: Buffer.from('e-1') }
    const delivery = fromAmqpMessage(message('k', {}, { headers }), 'orders')
    expect(cloudEventKey()({ ...delivery, payload: {} })).toBe('cloudevent:5:/shop:3:e-1')
  },
)

test.each([
  [1_700_000_000, '2023-11-14T22:13:20.000Z'],
  [1_700_000_000_123, '2023-11-14T22:13:20.123Z'],
  [0, undefined],
  [1e300, undefined],
])('a timestamp of %d means %s', (timestamp, expected) => {
  const delivery = fromAmqpMessage(message('k', {}, { timestamp }), 'orders')
  expect(delivery.producedAt?.toISOString()).toBe(expected)
})

const original = message(
  'k',
  { exchange: 'shop', routingKey: 'orders.placed' },
  {
    contentType: 'application/json',
    priority: 3,
    expiration: '60000',
    userId: 'alice',
    messageId: 'm-1',
    headers: {
      'Idempotency-Key': 'k',
      CC: ['audit'],
      'x-death': [{ count: 1 } as never],
      'x-first-death-queue': 'q',
      'x-delivery-count': 2,
      'x-onceward-reason': 'of an earlier life',
    },
  },
)

test('a copy keeps the properties it may keep, and moves those that AMQP would act on to headers', () => {
  expect(copyOptions(original, { extra: 1 })).toEqual({
    contentType: 'application/json',
    priority: 3,
    messageId: 'm-1',
    headers: {
      'Idempotency-Key': 'k',
      'x-onceward-exchange': 'shop',
      'x-onceward-routing-key': 'orders.placed',
      'x-onceward-expiration': '60000',
      'x-onceward-user-id': 'alice',
      'x-onceward-delivery-mode': 0,
      'x-onceward-cc': ['audit'],
      extra: 1,
    },
  })
})

// Red when x-death or the delivery count of a copy is carried on: brokers go on counting, or do not (A9).
test('trap A9: a deferred copy returns as the message that it was', () => {
  const { headers, ...properties } = copyOptions(original, deferralHeaders(original, original))
  const back = message('k', { exchange: '', routingKey: 'orders' }, {
    ...properties,
    headers: {
      ...headers,
      'x-death': [{ count: 2, reason: 'expired' }],
      'x-last-death-queue': 'q',
    },
  } as never)
  const delivery = fromAmqpMessage(back, 'orders')
  expect(delivery).toMatchObject({ redelivered: true, deliveryCount: 2 })
  expect(delivery.headers).toEqual({
    'idempotency-key': 'k',
    'x-first-death-queue': 'q',
    'x-onceward-reason': 'of an earlier life',
  })
  expect(amqpMessage(delivery)).toMatchObject({
    fields: { exchange: 'shop', routingKey: 'orders.placed' },
    properties: {
      expiration: '60000',
      userId: 'alice',
      priority: 3,
      headers: { 'Idempotency-Key': 'k', CC: ['audit'] },
    },
  })
})

test('a stored delivery is published with its stored properties', () => {
  const live = fromAmqpMessage(message('k', {}, { messageId: 'm-1', appId: 'shöp' }), 'orders')
  const { raw: _, envelope: __, ...stored } = live
  expect(amqpMessage(stored)).toBeUndefined()
  expect(storedOptions(stored, { 'x-onceward-reason': 'fatal' })).toEqual({
    messageId: 'm-1',
    appId: 'shöp',
    headers: { 'idempotency-key': 'k', 'x-onceward-reason': 'fatal' },
  })
  expect(storedOptions({ ...stored, messageId: '12:34' }, {})).toMatchObject({ messageId: '12:34' })
})

test('the original message is returned, also for stored deliveries, except for other brokers', () => {
  const delivery = fromAmqpMessage(message('k'), 'orders')
  expect(amqpMessage(delivery)).toBe(delivery.raw)
  expect(amqpMessage({ ...delivery, raw: undefined })).toEqual(delivery.raw)
  const bare = { ...delivery, raw: undefined, envelope: undefined }
  expect(amqpMessage(bare)).toBeUndefined()
  expect(amqpMessage({ ...bare, envelope: new Uint8Array([9]) })).toBeUndefined()
  expect(amqpMessage({ ...delivery, source: { broker: 'sqs', queue: 'q' } })).toBeUndefined()
})

// Red when all messages share one object: who observes outcomes takes one message for another.
test('each message has a source of its own, which learns the virtual host when it becomes known', () => {
  const source: { broker: string; queue: string; namespace?: string } = {
    ...{ broker: 'amqp', queue: 'orders' },
  }
  const accept = createAccept(source, { monotonic: () => 0 })
  const channel = { delivered: () => undefined } as unknown as Parameters<typeof accept>[1]
  const [one, other] = ['a', 'b'].map((id) => accept(message(id), channel).delivery.source)
  expect(one).not.toBe(other)
  expect(one).toEqual({ broker: 'amqp', queue: 'orders' })
  source.namespace = '/shop'
  expect([one?.namespace, other?.namespace]).toEqual(['/shop', '/shop'])
})
