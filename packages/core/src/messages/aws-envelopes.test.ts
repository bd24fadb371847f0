import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { resolveOptions } from '../guard/resolve-options.ts'
import { memoryInbox } from '../memory/index.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { Delivery } from '../model/delivery.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import type { InboxGuardOptions } from '../options/options.ts'
import { type Identified, identify } from '../receive/identify.ts'
import { s3TestEvent, unwrapEventBridge, unwrapSns } from './aws-envelopes.ts'
import { eventBridgeKey, snsKey } from './resolvers.ts'

const snsId = '95df01b4-ee98-5cb9-9903-4c221d41eb5e'
const TopicArn = 'arn:aws:sns:eu-central-1:123456789012:orders'
const notification = (Message: unknown, more: object = {}): object => ({
  ...{ Type: 'Notification', MessageId: snsId, TopicArn, Message },
  ...{ Timestamp: '2026-11-22T10:00:00.000Z', SignatureVersion: '1', Signature: 'EXAMPLE' },
  ...more,
})
const order = { orderId: 'o-1', cents: 500 }
const inSns = (more: object = {}): Delivery =>
  toDelivery(notification(JSON.stringify(order), more), { headers: {} })

const bridgeId = '17793124-05d4-b198-2fde-7ededc63b103'
const bridged = (more: object = {}): object => ({
  ...{ version: '0', id: bridgeId, 'detail-type': 'OrderPlaced', source: 'my.shop' },
  ...{ account: '123456789012', time: '2026-11-22T10:00:00Z', region: 'eu-central-1' },
  ...{ resources: [], detail: order, ...more },
})
const inBridge = (more: object = {}): Delivery => toDelivery(bridged(more), { headers: {} })

type Given = Partial<InboxGuardOptions<unknown, undefined>>

const run = async (delivery: Delivery, given: Given = {}): Promise<Identified> =>
  identify(delivery, resolveOptions({ consumer: 'billing', inbox: memoryInbox(), ...given }))

describe('a message from SNS', () => {
  test('has the key of SNS, with and without unwrapSns', async () => {
    expect(await run(inSns())).toMatchObject({ event: { key: snsId } })
    expect(await run(inSns(), { decode: unwrapSns() })).toMatchObject({
      event: { key: snsId },
      payload: order,
    })
  })

  test('of raw message delivery has the payload itself, and its key is in its attributes', async () => {
    const raw = toDelivery(order, { headers: { 'idempotency-key': 'k-1' } })
    expect(await run(raw, { decode: unwrapSns() })).toMatchObject({
      event: { key: 'k-1' },
      payload: order,
    })
  })

  test.each([
    ['idempotency-key', { 'Idempotency-Key': { Type: 'String', Value: 'k-1' } }, 'k-1'],
    [
      'CloudEvents',
      { ce_source: { Type: 'String', Value: 's' }, ce_id: { Type: 'String', Value: '7' } },
      'cloudevent:1:s:1:7',
    ],
    ['binary', { 'idempotency-key': { Type: 'Binary', Value: 'aw==' } }, snsId],
    ['odd', { 'idempotency-key': null, other: 5 }, snsId],
  ])(
    'with %s attributes has the key that its publisher set, or that of SNS',
    async (_, MessageAttributes, key) => {
      expect(await run(inSns({ MessageAttributes }))).toMatchObject({ event: { key } })
    },
  )

  test('and its redelivery with a new signature have one fingerprint once they are unwrapped', async () => {
    const [first, again] = await Promise.all(
      [inSns(), inSns({ Signature: 'OTHER' })].map((each) => run(each, { decode: unwrapSns() })),
    )
    expect(first).toMatchObject({ kind: 'identified' })
    expect(again).toMatchObject({
      event: { fingerprint: (first as never)['event']['fingerprint'] },
    })
  })

  test('that is no JSON is refused, and a decoder of the user reads it', async () => {
    const text = toDelivery(notification('hello'), { headers: {} })
    expect(await run(text, { decode: unwrapSns() })).toMatchObject({ reason: 'invalid-payload' })
    const decode = unwrapSns((body) => Buffer.from(body).toString())
    expect(await run(text, { decode })).toMatchObject({ payload: 'hello', event: { key: snsId } })
  })

  // Red when the key is that of SNS: EventBridge publishes again after a network error, and SNS gives it another id.
  test.each([snsId, '0a1b2c3d-0000-5000-8000-000000000000'])(
    'may hold an EventBridge event, whose key is its own: %s',
    async (MessageId) => {
      const envelope = notification(JSON.stringify(bridged()), { MessageId })
      const nested = toDelivery(envelope, { headers: {} })
      const decode = unwrapSns(unwrapEventBridge())
      const event = { key: bridgeId }
      expect(await run(nested, { decode })).toMatchObject({ payload: order, event })
      expect(await run(nested)).toMatchObject({ event })
      const source = { broker: 'sns', queue: TopicArn }
      const direct = toDelivery(bridged(), { headers: {}, source, messageId: MessageId })
      expect(await run(direct)).toMatchObject({ event })
    },
  )

  test('is not any text that names its fields', async () => {
    const body = Buffer.from('say "TopicArn" and "detail-type"')
    const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString()
    for (const decode of [unwrapSns(textOf), unwrapEventBridge(textOf)]) {
      expect(await run({ ...inSns(), body }, { decode, eventKey: () => 'k' })).toMatchObject({
        payload: textOf(body),
      })
    }
  })

  test.each([
    ['a Type of its own', { Type: 'Order' }],
    ['an empty TopicArn', { TopicArn: '' }],
    ['an empty MessageId', { MessageId: '' }],
  ])('is not any body with %s', async (_name, more) => {
    expect(await run(inSns(more))).toMatchObject({ reason: 'missing-event-key' })
  })

  test.each([
    ['are null', null],
    ['are a text', 'idempotency-key'],
    ['are no texts', { 'idempotency-key': { Type: 'Number', Value: 5 } }],
    ['are binary', { 'idempotency-key': { Type: 'Binary', Value: 'YQ==' } }],
    ['are null each', { 'idempotency-key': null }],
  ])('has the key of SNS if its attributes %s', async (_name, MessageAttributes) => {
    expect(await run(inSns({ MessageAttributes }))).toMatchObject({ event: { key: snsId } })
  })

  test.each(['SubscriptionConfirmation', 'UnsubscribeConfirmation'])(
    'of type %s is refused with what to do',
    async (Type) => {
      for (const decode of [undefined, unwrapSns()]) {
        expect(await run(inSns({ Type }), { decode })).toMatchObject({
          reason: 'invalid-payload',
          error: expect.objectContaining({ message: expect.stringContaining('SubscribeURL') }),
        })
      }
    },
  )

  test('that comes from SNS itself has its id as the key', () => {
    const source = { broker: 'sns', queue: TopicArn }
    const delivery = toDelivery(order, { headers: {}, source, messageId: snsId })
    expect(snsKey()({ ...delivery, payload: order })).toBe(snsId)
  })
})

describe('an EventBridge event', () => {
  test('has its id as the key, with and without unwrapEventBridge', async () => {
    expect(await run(inBridge())).toMatchObject({ event: { key: bridgeId } })
    expect(await run(inBridge(), { decode: unwrapEventBridge() })).toMatchObject({
      event: { key: bridgeId },
      payload: order,
    })
  })

  test.each([null, 0, '', [], 'text'])('may have the detail %j', async (detail) => {
    const decode = unwrapEventBridge()
    expect(await run(inBridge({ detail }), { decode })).toMatchObject({ payload: detail })
  })

  test('is decoded by the decoder of the user, which gets the detail as JSON text', async () => {
    const decode = unwrapEventBridge((body) => ['decoded', Buffer.from(body).toString()])
    const payload = ['decoded', JSON.stringify(order)]
    expect(await run(inBridge(), { decode })).toMatchObject({ payload })
  })

  // Red when the detail is parsed and written again: a decoder that keeps large numbers got others.
  test('has its numbers as they were written for a decoder of the user', async () => {
    const detail = '{"id":12345678901234567890,"rate":1.10,"zero":-0,"large":[1e400]}'
    const text = JSON.stringify(bridged({ detail: 'here' }))
    const body = Buffer.from(text.replace('"here"', detail))
    const decode = unwrapEventBridge((bytes) => Buffer.from(bytes).toString())
    expect(await run({ ...inBridge(), body }, { decode })).toMatchObject({ payload: detail })
  })

  test('whose detail nests too deep for a decoder of the user is refused with what to do', async () => {
    const text = JSON.stringify(bridged({ detail: 'here' }))
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const body = Buffer.from(text.replace('"here"', deep))
    expect(
      await run({ ...inBridge(), body }, { decode: unwrapEventBridge(() => 1) }),
    ).toMatchObject({
      reason: 'invalid-payload',
      error: expect.objectContaining({
        message: expect.stringContaining('leave the decoder out'),
        cause: expect.any(RangeError),
      }),
    })
  })

  test.each(['id', 'detail-type', 'source', 'account', 'time', 'region', 'version', 'detail'])(
    'is not any body without %s',
    async (name) => {
      const delivery = inBridge({ [name]: undefined })
      expect(await run(delivery)).toMatchObject({ reason: 'missing-event-key' })
      const { payload } = (await run(delivery, {
        decode: unwrapEventBridge(),
        eventKey: () => 'k',
      })) as { readonly payload: object }
      expect(payload).not.toEqual(order)
    },
  )
})

describe('no body makes an unwrapper throw anything but InvalidPayloadError', () => {
  const bodies = fc.oneof(
    fc.uint8Array(),
    fc.json().map((text) => Buffer.from(text)),
    fc
      .record(
        {
          Type: fc.oneof(fc.constant('Notification'), fc.anything()),
          MessageId: fc.anything(),
          TopicArn: fc.oneof(fc.constant(TopicArn), fc.anything()),
          Message: fc.oneof(fc.json(), fc.anything()),
          MessageAttributes: fc.anything(),
          'detail-type': fc.anything(),
          id: fc.anything(),
          detail: fc.anything(),
        },
        { requiredKeys: [] },
      )
      .map((value) => {
        try {
          return Buffer.from(JSON.stringify(value) ?? '')
        } catch {
          return Buffer.of()
        }
      }),
  )
  test('whatever it holds', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const delivery = toDelivery(null, { headers: {}, body })
        for (const decode of [unwrapSns(), unwrapEventBridge()]) {
          try {
            await decode(body, delivery)
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidPayloadError)
          }
        }
        for (const resolver of [snsKey(), eventBridgeKey()]) {
          const key = resolver({ ...delivery, payload: null })
          expect(['undefined', 'string']).toContain(typeof key)
        }
      }),
    )
  })
})

describe('s3TestEvent', () => {
  const s3 = { Service: 'Amazon S3', Event: 's3:TestEvent', Bucket: 'b', RequestId: 'r' }

  test('skips the test event of S3, also inside of SNS', async () => {
    const inQueue = toDelivery(s3, { headers: {} })
    const fromSns = toDelivery(notification(JSON.stringify(s3)), { headers: {} })
    for (const delivery of [inQueue, fromSns]) {
      for (const decode of [undefined, unwrapSns()]) {
        expect(await run(delivery, { skip: s3TestEvent, decode })).toEqual({ kind: 'skipped' })
      }
    }
  })

  test.each([
    null,
    5,
    'x',
    [],
    {},
    { ...s3, Event: 'ObjectCreated:Put' },
    { ...s3, Service: 's3' },
    { Records: [] },
  ])('skips nothing else, such as %j', (payload) => {
    const delivery = toDelivery(payload)
    expect(s3TestEvent({ ...delivery, payload })).toBe(false)
  })
})
