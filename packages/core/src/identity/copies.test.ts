import { describe, expect, test } from 'vitest'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox } from '../memory/index.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import { unwrapEventBridge, unwrapSns } from '../messages/aws-envelopes.ts'
import { unwrapCloudEvent } from '../messages/cloud-event.ts'
import { debezium } from '../messages/debezium.ts'
import { massTransitKey, unwrapMassTransit } from '../messages/envelopes.ts'
import { losslessJson } from '../messages/lossless-json.ts'
import { header, snsKey } from '../messages/resolvers.ts'
import { s3Key } from '../messages/s3-key.ts'
import type { Delivery } from '../model/delivery.ts'
import type { IdentifiedEvent } from '../model/inbox.ts'
import { isConflict } from '../model/state-machine.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import { identify } from '../receive/identify.ts'

// docs/messages.md, "What makes two messages one event": a line of its table, a line here.

type Given = Partial<InboxGuardOptions<unknown, undefined>>
interface Message {
  readonly body: unknown
  readonly headers?: Delivery['headers']
  readonly more?: Partial<Delivery>
}

async function eventOf(
  { body, headers = {}, more }: Message,
  given: Given,
): Promise<IdentifiedEvent> {
  const options = resolveOptions({ consumer: 'billing', inbox: memoryInbox(), ...given })
  const identified = await identify(toDelivery(body, { headers, ...more }), options)
  if (identified.kind !== 'identified') throw new Error(JSON.stringify(identified))
  return identified.event
}

async function compared(one: Message, other: Message, given: Given): Promise<string> {
  const [first, second] = [await eventOf(one, given), await eventOf(other, given)]
  if (first.id !== second.id) return 'another event'
  return isConflict(first.fingerprint, second.fingerprint) ? 'conflict' : 'duplicate'
}

const order = { orderId: 'o-1', cents: 500 }
const message = (body: unknown, headers: Delivery['headers'] = {}): Message => ({ body, headers })

const cloudEvent = {
  ...{ specversion: '1.0', id: 'A 1', source: '/shop', type: 'placed', subject: 'o-1' },
  ...{ time: '2026-11-22T10:00:00Z', datacontenttype: 'application/json', data: order },
}
const inBase64 = Buffer.from(JSON.stringify(order)).toString('base64')
const binary = (prefix: string, id: string): Message =>
  message(order, { [`${prefix}source`]: '/shop', [`${prefix}id`]: id })

const sns = {
  ...{ Type: 'Notification', MessageId: 'm-1', TopicArn: 'arn:aws:sns:eu:1:orders' },
  ...{ Subject: 'placed', Message: JSON.stringify(order), Timestamp: '2026-11-22T10:00:00Z' },
  ...{ SignatureVersion: '1', Signature: 'a', SigningCertURL: 'https://sns/a.pem' },
  UnsubscribeURL: 'https://sns/?a',
}
const stampedSns = {
  ...{ Timestamp: '2026-11-22T10:09:00Z', SignatureVersion: '2', Signature: 'b' },
  ...{ SigningCertURL: 'https://sns/b.pem', UnsubscribeURL: 'https://sns/?b' },
  SequenceNumber: '10000000000000003000',
}
const bridge = {
  ...{ version: '0', id: 'e-1', 'detail-type': 'placed', source: 'shop', account: '1' },
  ...{ time: '2026-11-22T10:00:00Z', region: 'eu-west-1', resources: [], detail: order },
}
const massTransit = {
  ...{ messageId: '18560000-5d0b-0015', messageType: ['urn:message:Placed'], message: order },
  ...{ sentTime: '2026-11-22T10:00:00Z', headers: {}, host: { machineName: 'a' } },
  sourceAddress: 'rabbitmq://a/shop',
}
const stampedMassTransit = {
  ...{ sentTime: '2026-11-22T10:05:00Z', host: { machineName: 'b' }, headers: { trace: '1' } },
  ...{ sourceAddress: 'rabbitmq://b/shop', destinationAddress: 'rabbitmq://b/x' },
}
const s3 = {
  ...{ eventVersion: '2.1', eventSource: 'aws:s3', eventTime: '2026-11-22T10:00:00.000Z' },
  ...{ eventName: 'ObjectCreated:Put', responseElements: { 'x-amz-request-id': 'a' } },
  s3: {
    ...{ configurationId: 'thumbnails', bucket: { name: 'photos' } },
    object: { key: 'a+b.jpg', size: 5, eTag: 'e', sequencer: '0055' },
  },
}
const stampedS3 = {
  ...s3,
  ...{ eventVersion: '2.2', responseElements: { 'x-amz-request-id': 'b' } },
  s3: { ...s3.s3, configurationId: 'audit' },
}
const change = {
  ...{ op: 'u', before: null, after: order, ts_ms: 1 },
  source: { connector: 'postgresql', name: 'shop', table: 'orders', lsn: 7, txId: 3, ts_ms: 1 },
}
const flat = {
  ...{ ...order, __op: 'u', __name: 'shop', __table: 'orders', __lsn: 7, __txid: 3 },
  ...{ __source_ts_ms: 1, __ts_ms: 1 },
}
/** As `add.headers` writes them. */
const IN_HEADERS = { __op: '"u"', __name: '"shop"', __table: '"orders"', __lsn: '7', __txid: '3' }
const bigDetail = { ...bridge, detail: { orderId: 1, note: 'a number beside it' } }

interface Line {
  readonly name: string
  readonly given?: Given
  readonly one: Message
  readonly copies: readonly Message[]
  /** The same key with another content. */
  readonly conflicts?: readonly Message[]
  readonly others: readonly Message[]
}

const LINES: readonly Line[] = [
  {
    name: 'CloudEvents, structured',
    one: message(cloudEvent),
    copies: [
      // Red when extensions are compared: a trace that a hop adds is a conflict.
      message({ ...cloudEvent, traceparent: '00-1-1-01', tracestate: 'a=1', partitionkey: '1' }),
      message({ ...cloudEvent, time: '2026-11-22T10:00:00.000Z' }),
      message({ ...cloudEvent, data: undefined, data_base64: inBase64 }),
      binary('ce_', 'A 1'),
      binary('cloudevents:', 'A 1'),
      binary('cloudevents_', 'A 1'),
      binary('ce-', 'A%201'),
    ],
    conflicts: [
      message({ ...cloudEvent, data: { ...order, cents: 1 } }),
      message({ ...cloudEvent, type: 'cancelled' }),
    ],
    others: [message({ ...cloudEvent, id: 'A 2' }), message({ ...cloudEvent, source: '/other' })],
  },
  {
    name: 'CloudEvents, structured, unwrapped',
    given: { decode: unwrapCloudEvent() },
    one: message(cloudEvent),
    copies: [message({ ...cloudEvent, traceparent: '00-1-1-01' }), binary('ce_', 'A 1')],
    conflicts: [message({ ...cloudEvent, data: { ...order, cents: 1 } })],
    others: [message({ ...cloudEvent, id: 'A 2' })],
  },
  {
    name: 'CloudEvents, structured, by another decoder',
    given: { decode: losslessJson() },
    one: message(cloudEvent),
    copies: [message({ ...cloudEvent, traceparent: '00-1-1-01' })],
    conflicts: [message({ ...cloudEvent, data: { ...order, cents: 1 } })],
    others: [message({ ...cloudEvent, id: 'A 2' })],
  },
  {
    // Red when the header is taken as it is: two spellings of one id are two events.
    name: 'CloudEvents, binary over HTTP, then in a queue',
    one: binary('ce-', 'A%201'),
    copies: [
      ...['"A 1"', '"A\\ 1"', '%41%201', '"A%201"'].map((id) => binary('ce-', id)),
      binary('ce_', 'A 1'),
    ],
    conflicts: [{ ...binary('ce-', 'A%201'), body: {} }],
    others: ['A%2', 'A%252', 'A%C0%A0', '"A', 'A%22'].map((id) => binary('ce-', id)),
  },
  {
    // The bindings of Kafka and AMQP carry texts as they are.
    name: 'CloudEvents, binary on Kafka',
    one: binary('ce_', 'A%201'),
    copies: [binary('cloudevents:', 'A%201')],
    others: ['A 1', '"A%201"', 'A%25201'].map((id) => binary('ce_', id)),
  },
  {
    name: 'SNS, as it is',
    one: message(sns),
    // Red when the whole notification is compared: its signature and time are of the hop.
    copies: [message({ ...sns, ...stampedSns }), message({ ...sns, MessageAttributes: {} })],
    conflicts: [message({ ...sns, Message: '{}' }), message({ ...sns, Subject: 'other' })],
    others: [message({ ...sns, MessageId: 'm-2' })],
  },
  {
    name: 'SNS, unwrapped',
    given: { decode: unwrapSns() },
    one: message(sns),
    copies: [message({ ...sns, ...stampedSns })],
    conflicts: [message({ ...sns, Message: '{}' })],
    others: [message({ ...sns, MessageId: 'm-2' })],
  },
  {
    name: 'SNS with a key of its publisher, published twice',
    one: message({
      ...sns,
      MessageAttributes: { 'Idempotency-Key': { Type: 'String', Value: 'k' } },
    }),
    copies: [
      message({
        ...{ ...sns, ...stampedSns, MessageId: 'm-2' },
        MessageAttributes: {
          'Idempotency-Key': { Type: 'String', Value: 'k' },
          traceparent: { Type: 'String', Value: '00-1-1-01' },
        },
      }),
    ],
    others: [message({ ...sns, MessageAttributes: {} })],
  },
  {
    name: 'EventBridge',
    one: message(bridge),
    copies: [
      message({ ...bridge, 'replay-name': 'of-monday' }),
      message({ ...bridge, time: '2026-11-22T10:00:01Z', account: '2', region: 'eu-central-1' }),
      // Through SNS it is the same event, which nothing compares with a direct one.
      message({ ...sns, Message: JSON.stringify({ ...bridge, 'replay-name': 'again' }) }),
    ],
    conflicts: [message({ ...bridge, detail: {} }), message({ ...bridge, source: 'other' })],
    others: [message({ ...bridge, id: 'e-2' })],
  },
  {
    name: 'EventBridge through SNS',
    one: message({ ...sns, Message: JSON.stringify(bridge) }),
    copies: [
      message({
        ...{ ...sns, ...stampedSns, MessageId: 'm-2' },
        Message: JSON.stringify({ ...bridge, 'replay-name': 'again' }),
      }),
    ],
    conflicts: [message({ ...sns, Message: JSON.stringify({ ...bridge, detail: {} }) })],
    others: [message({ ...sns, Message: JSON.stringify({ ...bridge, id: 'e-2' }) })],
  },
  {
    name: 'EventBridge, unwrapped',
    given: { decode: unwrapEventBridge() },
    one: message(bridge),
    copies: [message({ ...bridge, 'replay-name': 'of-monday' })],
    conflicts: [message({ ...bridge, detail: {} })],
    others: [message({ ...bridge, id: 'e-2' })],
  },
  {
    name: 'MassTransit, as it is',
    given: { eventKey: massTransitKey() },
    one: message(massTransit),
    copies: [message({ ...massTransit, ...stampedMassTransit })],
    conflicts: [message({ ...massTransit, message: {} })],
    others: [message({ ...massTransit, messageId: 'other' })],
  },
  {
    name: 'MassTransit, unwrapped',
    given: { decode: unwrapMassTransit() },
    one: message(massTransit),
    copies: [message({ ...massTransit, ...stampedMassTransit })],
    conflicts: [message({ ...massTransit, message: {} })],
    others: [message({ ...massTransit, messageId: 'other' })],
  },
  {
    name: 'S3, a record',
    given: { eventKey: s3Key() },
    one: message(s3),
    copies: [message(stampedS3), message({ Records: [stampedS3] })],
    conflicts: [message({ ...s3, eventName: 'ObjectRemoved:Delete' })],
    others: [message({ ...s3, s3: { ...s3.s3, object: { ...s3.s3.object, sequencer: '0056' } } })],
  },
  {
    name: 'Debezium, rows',
    given: { decode: debezium() },
    one: message(change),
    copies: [
      message({ ...change, ts_ms: 9, source: { ...change.source, ts_ms: 9, version: '3.1' } }),
      message({ schema: {}, payload: change }),
    ],
    conflicts: [{ ...message({ ...change, after: {} }), more: { orderingKey: 'k' } }],
    others: [message({ ...change, source: { ...change.source, lsn: 8 } })],
  },
  {
    name: 'Debezium, flattened rows',
    given: { decode: debezium() },
    one: message(flat),
    copies: [message({ ...flat, __source_ts_ms: 9, __ts_ms: 9 })],
    others: [
      message({ ...flat, __lsn: 8 }),
      message({ ...flat, __table: 'lines' }),
      message({ ...flat, __name: 'other' }),
      message({ ...flat, __op: undefined, __deleted: 'true' }),
    ],
  },
  {
    name: 'Debezium, flattened rows with the fields in headers',
    given: { decode: debezium() },
    one: message(order, { ...IN_HEADERS, __ts_ms: '1' }),
    copies: [message(order, { ...IN_HEADERS, __ts_ms: '9' })],
    others: [message(order, { ...IN_HEADERS, __lsn: '8' })],
  },
  {
    name: 'Debezium, outbox',
    given: { decode: debezium() },
    one: message(order, { id: '"4d47"', __ts_ms: '1' }),
    copies: [message(order, { id: '4d47', __ts_ms: '2' })],
    conflicts: [message({}, { id: '4d47' })],
    others: [message(order, { id: '4d48' })],
  },
  {
    name: 'headers of NServiceBus, Celery and others',
    given: { eventKey: header('id') },
    one: message(order, { id: 't-1', retries: '0', timesent: 'a' }),
    copies: [message(order, { id: 't-1', retries: '1', timesent: 'b' })],
    conflicts: [message({}, { id: 't-1' })],
    others: [message(order, { id: 't-2' })],
  },
  {
    name: 'an SNS message with numbers that JavaScript rounds: its text is compared',
    given: { eventKey: snsKey() },
    one: message({ ...sns, Message: '{"id":12345678901234567891}' }),
    copies: [message({ ...sns, ...stampedSns, Message: '{"id":12345678901234567891}' })],
    conflicts: [message({ ...sns, Message: '{"id":12345678901234567892}' })],
    others: [],
  },
  {
    name: 'a payload that has fields of an envelope and is none',
    given: { eventKey: () => 'k' },
    one: message({ ...bigDetail, id: 5 }),
    copies: [message({ ...bigDetail, id: 5 })],
    conflicts: [message({ ...bigDetail, id: 5, 'replay-name': 'x' })],
    others: [],
  },
]

describe.each(LINES)('$name', ({ conflicts = [], copies, given = {}, one, others }) => {
  test.each(copies.map((copy) => [copy]))('a copy is a duplicate: %j', async (copy) => {
    // The key of the record is the same in all copies of a change.
    const more = { orderingKey: 'k' }
    const [first, second] = [
      { ...one, more },
      { ...copy, more },
    ]
    expect(await compared(first, second, given)).toBe('duplicate')
  })

  test.each(conflicts.map((each) => [each]))('another content is a conflict: %j', async (each) => {
    const more = { orderingKey: 'k' }
    expect(await compared({ ...one, more }, { ...each, more }, given)).toBe('conflict')
  })

  test.each(others.map((other) => [other]))('another event is one: %j', async (other) => {
    expect(await compared(one, other, given)).toBe('another event')
  })
})

test('of an envelope with a number that JavaScript rounds nothing is compared but the key', async () => {
  const large = (id: string, more: object = {}): Message => {
    const text = JSON.stringify({ ...bridge, ...more }).replace('"o-1"', id)
    return { body: null, more: { body: Buffer.from(text) } }
  }
  const one = large('12345678901234567891')
  for (const id of ['12345678901234567891', '12345678901234567892']) {
    expect(await compared(one, large(id, { 'replay-name': 'again' }), {})).toBe('duplicate')
  }
  // A decoder that keeps it compares it.
  const given = { decode: unwrapEventBridge(losslessJson()) }
  expect(await compared(one, large('12345678901234567892'), given)).toBe('conflict')
})

describe('debezium() finds no key in a part of a position', () => {
  test.each([
    { ...order, __op: 'u' },
    { ...order, __lsn: 7 },
    { ...order, __name: 'shop', __table: 'orders', __pos: 4 },
    { ...order, __name: 'shop', __collection: 'orders', __ord: 1, __ts_ms: 5 },
  ])('%j', async (body) => {
    await expect(eventOf(message(body), { decode: debezium() })).rejects.toThrow(
      /missing-event-key/,
    )
  })
})

describe('debezium() skips what is no event', () => {
  const kindOf = async (delivery: Delivery): Promise<string> => {
    const options = resolveOptions({
      ...{ consumer: 'billing', inbox: memoryInbox(), decode: debezium() },
    })
    return (await identify(delivery, options)).kind
  }
  const empty = (headers: Delivery['headers']): Delivery => ({
    ...toDelivery(null, { headers }),
    body: new Uint8Array(),
  })

  test('tombstones and heartbeats', async () => {
    expect(await kindOf(empty({}))).toBe('skipped')
    expect(await kindOf(toDelivery({ ts_ms: 1 }, { headers: {} }))).toBe('skipped')
    const withSchema = { schema: {}, payload: { ts_ms: 1 } }
    expect(await kindOf(toDelivery(withSchema, { headers: {} }))).toBe('skipped')
  })

  // Red when every empty body is a tombstone: the event of the outbox is lost.
  test('but not an event of the outbox without a payload', async () => {
    expect(await kindOf(empty({ id: '4d47' }))).toBe('identified')
    expect(await kindOf(toDelivery({ ts_ms: 1 }, { headers: { id: '4d47' } }))).toBe('identified')
  })
})
