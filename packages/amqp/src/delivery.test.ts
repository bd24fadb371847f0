import { cloudEventKey, messageId } from '@onceward/core'
import { expect, test } from 'vitest'
import {
  amqpMessage,
  copyOptions,
  createAccept,
  deferralHeaders,
  fromAmqpMessage,
  storedOptions,
} from './delivery.ts'
import { message } from './fixtures/recording-channel.ts'

test('a delivery contains everything that RabbitMQ knows of a message', () => {
  const received = message(
    'k-1',
    { redelivered: true, exchange: 'shop', routingKey: 'orders.placed' },
    {
      messageId: 'm-1',
      contentType: 'application/json',
      contentEncoding: 'gzip',
      timestamp: 1_700_000_000,
      headers: {
        'Idempotency-Key': Buffer.from('k-1'),
        'X-Order-Key': 'ignored',
        'x-order-key': 'customer-7',
        'x-delivery-count': 2,
        count: 7,
        urgent: true,
        long: 2n ** 60n,
        'x-onceward-publish-id': 'p-1',
        table: { a: 1 },
        list: ['a'],
        bytes: Buffer.from([0xff, 0]),
        nothing: null,
        __proto__x: 'kept',
      },
    },
  )
  expect(fromAmqpMessage(received, 'orders')).toStrictEqual({
    body: received.content,
    headers: {
      'idempotency-key': 'k-1',
      'x-order-key': 'customer-7',
      'x-delivery-count': '2',
      count: '7',
      urgent: 'true',
      long: '1152921504606846976',
      __proto__x: 'kept',
    },
    source: { broker: 'amqp', queue: 'orders' },
    contentType: 'application/json',
    contentEncoding: 'gzip',
    messageId: 'm-1',
    orderingKey: 'customer-7',
    producedAt: new Date(1_700_000_000_000),
    deliveryCount: 3,
    redelivered: true,
    envelope: expect.any(Uint8Array),
    raw: received,
  })
})

test.each([
  ['the first delivery', false, undefined, 1],
  ['a redelivery of a classic queue', true, undefined, 2],
  ['a redelivery of a quorum queue', true, 4, 5],
  ['a message that a consumer of a quorum queue returned', true, 0, 2],
  ['a message whose publisher wrote a negative count', false, -3, 1],
  ['a message whose publisher wrote a text as its count', true, 'many', 2],
  ['a message whose publisher wrote a table as its count', true, { toString: 'many' }, 2],
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
  expect(idOf({ messageId: '1', appId: '' })).toBe('1')
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
  [100_000_000_000, '5138-11-16T09:46:40.000Z'],
  ['1700000000', undefined],
])('a timestamp of %s means %s', (timestamp, expected) => {
  const delivery = fromAmqpMessage(message('k', {}, { timestamp } as never), 'orders')
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
  expect(copyOptions(original, { extra: 1 })).toStrictEqual({
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
  const properties = { messageId: 'm-1', appId: 'shöp', timestamp: 1_700_000_000 }
  const live = fromAmqpMessage(message('k', {}, properties), 'orders')
  const { raw: _, envelope: __, ...stored } = live
  expect(amqpMessage(stored)).toBeUndefined()
  expect(storedOptions(stored, { 'x-onceward-reason': 'fatal' })).toStrictEqual({
    messageId: 'm-1',
    appId: 'shöp',
    timestamp: 1_700_000_000,
    headers: { 'idempotency-key': 'k', 'x-onceward-reason': 'fatal' },
  })
  expect(storedOptions({ ...stored, producedAt: undefined }, {})).not.toHaveProperty('timestamp')
})

test.each([
  ['4:shop:m-1', { appId: 'shop', messageId: 'm-1' }],
  ['12:billing-2026:a\nb', { appId: 'billing-2026', messageId: 'a\nb' }],
  ['12:34', { messageId: '12:34' }],
  ['order-4:shop:m-1', { messageId: 'order-4:shop:m-1' }],
  ['1:shop:m-1', { messageId: '1:shop:m-1' }],
  ['m-1', { messageId: 'm-1' }],
  [undefined, {}],
])('the stored message id %j is published as it was received', (messageId, expected) => {
  const stored = { ...fromAmqpMessage(message('k'), 'orders'), messageId }
  const { headers: _, ...properties } = storedOptions(stored, {})
  expect(properties).toStrictEqual(expected)
})

test('the original message is returned, also for stored deliveries, except for other brokers', () => {
  const delivery = fromAmqpMessage(message('k'), 'orders')
  expect(amqpMessage(delivery)).toBe(delivery.raw)
  expect(amqpMessage({ ...delivery, raw: undefined })).toEqual(delivery.raw)
  expect(amqpMessage({ ...delivery, raw: null })).toEqual(delivery.raw)
  const bare = { ...delivery, raw: undefined, envelope: undefined }
  expect(amqpMessage(bare)).toBeUndefined()
  expect(amqpMessage({ ...bare, envelope: new Uint8Array([9]) })).toBeUndefined()
  expect(amqpMessage({ ...delivery, source: { broker: 'sqs', queue: 'q' } })).toBeUndefined()
})

test("a guard of the same process restores RabbitMQ's stored deliveries", () => {
  const readers = Reflect.get(globalThis, Symbol.for('onceward.envelope-readers')) as ReadonlyMap<
    string,
    (stored: object) => unknown
  >
  const delivery = fromAmqpMessage(message('k'), 'orders')
  const { envelope } = delivery
  expect(readers.get('amqp')?.({ ...delivery, envelope, raw: undefined })).toEqual(delivery.raw)
})

// Red when a header is read from a table that is not there: every message of such a publisher would end its consumer.
test('a message without headers is delivered, deferred and dead-lettered', () => {
  const bare = message('k', { exchange: 'shop' }, { headers: undefined })
  expect(fromAmqpMessage(bare, 'orders')).toMatchObject({ headers: {}, deliveryCount: 1 })
  expect(copyOptions(bare, {})).toStrictEqual({
    headers: {
      'x-onceward-exchange': 'shop',
      'x-onceward-routing-key': 'orders',
      'x-onceward-delivery-mode': 0,
    },
  })
  expect(deferralHeaders(bare, bare)).toStrictEqual({
    'x-onceward-deferrals': 1,
    'x-onceward-delivery-name': expect.any(String),
  })
})

test.each([-1, 0.5, 2 ** 60, 'often', null, { toString: 'often' }])(
  'a count of deferrals that a publisher wrote is not believed when it is %s',
  (count) => {
    const headers = { 'x-onceward-deferrals': count, 'x-onceward-exchange': 'other' }
    const delivery = fromAmqpMessage(message('k', {}, { headers }), 'orders')
    expect(delivery).toMatchObject({ deliveryCount: 1, redelivered: false })
    expect(amqpMessage(delivery)?.fields.exchange).toBe('')
  },
)

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
