import { createGuard, type Delivery, position } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { expect, test } from 'vitest'
import { fromKafkaMessage, kafkaMessage, laneOf, toDelivery } from './delivery.ts'
import { message } from './fixtures/fetch.ts'

const deliveryOf = (more: Parameters<typeof message>[2], key: string | Buffer | null = 'k-1') =>
  toDelivery({ topic: 'orders', partition: 2, message: message(41, key, more) }, 'cluster-1')

test('a delivery contains everything that Kafka knows of a record, and gives the record back', () => {
  const json = Buffer.from('application/json')
  const headers = { 'Content-Type': json, 'Content-Encoding': Buffer.from('gzip') }
  const delivery = deliveryOf({ headers })
  expect(delivery).toMatchObject({
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    source: {
      broker: 'kafka',
      queue: 'orders',
      position: '2/41',
      namespace: 'cluster-1',
      incarnation: 'cluster-1:1700000000000',
    },
    contentType: 'application/json',
    contentEncoding: 'gzip',
    orderingKey: 'k-1',
    producedAt: new Date(1_700_000_000_000),
  })
  expect(delivery.redelivered).toBeUndefined()
  expect(kafkaMessage(delivery)).toMatchObject({
    topic: 'orders',
    partition: 2,
    message: { offset: '41' },
  })
  for (const raw of [undefined, null]) {
    expect(kafkaMessage({ ...delivery, raw })).toEqual(delivery.raw)
  }
  const bare = { ...delivery, raw: undefined, envelope: undefined }
  expect(kafkaMessage(bare)).toBeUndefined()
  expect(kafkaMessage({ ...bare, envelope: new Uint8Array([9]) })).toBeUndefined()
  expect(kafkaMessage({ ...delivery, source: { broker: 'sqs', queue: 'orders' } })).toBeUndefined()
})

// Red when a record that kills the process is never counted in a loop that does not know its consumers' history.
test('a delivery for a loop of your own has the same content as that of a wrap', async () => {
  const record = { topic: 'orders', partition: 2, message: message(41, 'k-1') }
  const delivery = fromKafkaMessage(record)
  const { envelope, ...known } = toDelivery(record, undefined)
  expect(delivery).toMatchObject({ ...known, redelivered: true })
  expect(delivery.source).not.toHaveProperty('namespace')
  expect(delivery.envelope).toEqual(envelope)
  expect(kafkaMessage(delivery)).toBe(record)
  const guard = createGuard(
    { consumer: 'billing', inbox: memoryInbox(), eventKey: position() },
    () => 'charged',
  )
  expect(await guard.process(delivery)).toMatchObject({ by: 'processed' })
  expect(await guard.process(fromKafkaMessage(record))).toMatchObject({ by: 'duplicate' })
  await guard.close()
})

test('headers are text with names in lower case, the last of repeated ones wins, and other bytes are dropped', () => {
  const { headers } = deliveryOf({
    headers: {
      Ce_Id: ['first', 'second', 'läst'].map((text) => Buffer.from(text)),
      CE_ID2: Buffer.from('two'),
      plain: 'text',
      blob: Buffer.from([0xff, 0xfe]),
      ['__proto__']: Buffer.from('mine'),
      empty: Buffer.from(''),
      none: undefined,
    },
  })
  expect(Object.entries(headers)).toEqual([
    ['ce_id', 'läst'],
    ['ce_id2', 'two'],
    ['plain', 'text'],
    ['__proto__', 'mine'],
    ['empty', ''],
  ])
})

// Red when a handler, a dead letter or a replay gets what JavaScript has under that name.
test('a header that is called like a member of Object.prototype has its own values alone', () => {
  const [one, two] = [Buffer.from('1'), Buffer.from('2')]
  // As kafkajs decodes them.
  const headers = Object.fromEntries([
    ['constructor', [Object, one]],
    ['__proto__', [Object.prototype, one, two]],
    ['Other', [one, two]],
  ])
  const delivery = deliveryOf({ headers: headers as never })
  const expected = Object.fromEntries([
    ['constructor', one],
    ['__proto__', [one, two]],
    ['Other', [one, two]],
  ])
  expect(kafkaMessage(delivery)?.message.headers).toEqual(expected)
  const stored = kafkaMessage({ ...delivery, raw: undefined })
  expect(stored?.message.headers).toEqual(expected)
  expect(Object.entries(delivery.headers)).toEqual([
    ['constructor', '1'],
    ['__proto__', '2'],
    ['other', '2'],
  ])
})

test('a record without a key has no lane, and every key that is not text has its own', () => {
  expect(deliveryOf({}, null).orderingKey).toBeUndefined()
  // A byte order mark is text too.
  const keys = [[0xff], [0xfe], [], [0x61], [0xef, 0xbb, 0xbf, 0x61]]
  const lanes = keys.map((bytes) => deliveryOf({}, Buffer.from(bytes)).orderingKey)
  expect(new Set(lanes).size).toBe(keys.length)
  expect(lanes[3]).toBe('a')
  // Producers and tests may have the key as text.
  expect(laneOf({ key: 'a' as never })).toBe('a')
})

// Red when the reader is not registered: after a replay `decode` and `eventKey` get no record in `raw`.
test('each copy of the core in this process can read a stored record', () => {
  const delivery = deliveryOf({})
  const readers: unknown = Reflect.get(globalThis, Symbol.for('onceward.envelope-readers'))
  const read = (readers as Map<string, (stored: Delivery) => unknown>).get('kafka')
  expect(read?.({ ...delivery, raw: undefined })).toEqual(delivery.raw)
})

// Red when an empty key becomes an empty ordering key, which the guard takes for none.
test('records with an empty key run in order, and a failing one holds back those behind it', async () => {
  const ran: string[] = []
  const guard = createGuard({ consumer: 'billing', inbox: memoryInbox() }, (event) => {
    ran.push(event.key)
    throw new Error('not yet')
  })
  const deliveries = [40, 41].map((offset) =>
    toDelivery({ topic: 'orders', partition: 0, message: message(offset, Buffer.alloc(0)) }, 'c'),
  )
  await guard.processBatch(deliveries)
  expect(ran).toEqual(['-40'])
  await guard.close()
})

test('the handler gets a tombstone as the payload null', async () => {
  const seen: unknown[] = []
  const guard = createGuard(
    { consumer: 'billing', inbox: memoryInbox(), eventKey: position() },
    ({ payload }) => void seen.push(payload),
  )
  const settlement = await guard.process(deliveryOf({ value: null }))
  expect([settlement.kind, seen]).toEqual(['ack', [null]])
  await guard.close()
})

test('the same position in a topic that was created again is another event', () => {
  const keys = [{}, {}, { timestamp: '1700000000001' }].map((more) => {
    const delivery = deliveryOf(more)
    return position()({ ...delivery, payload: undefined })
  })
  expect(keys[0]).toBe(keys[1])
  expect(keys[0]).not.toBe(keys[2])
})
