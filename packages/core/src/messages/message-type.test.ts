import { describe, expect, test } from 'vitest'
import { toDelivery } from '../memory/index.ts'
import type { Delivery } from '../model/delivery.ts'
import { registerMessageTypes } from '../support/adapter-registry.ts'
import { messageType, messageTypeOf } from './message-type.ts'

const NAMES = new Set(['order.placed', 'Contracts:OrderPlaced'])
const bare = (payload: unknown, headers: Delivery['headers'] = {}, over: Partial<Delivery> = {}) =>
  toDelivery(payload, { headers, ...over })
const typeOf = (delivery: Delivery, decoded?: unknown): unknown => {
  const payload =
    decoded === undefined ? JSON.parse(Buffer.from(delivery.body).toString()) : decoded
  return messageType(NAMES)({ ...delivery, payload })
}
const sns = (message: unknown, attributes: object = {}) => ({
  Type: 'Notification',
  MessageId: 'm',
  TopicArn: 'arn:aws:sns:eu-west-1:1:orders',
  Message: JSON.stringify(message),
  MessageAttributes: attributes,
})
const eventBridge = {
  ...{ version: '0', id: 'i', source: 'shop', account: '1', time: 't', region: 'eu-west-1' },
  ...{ 'detail-type': 'order.placed', detail: {}, resources: [] },
}
const event = { specversion: '1.0', id: 'i', source: 's', type: 'order.placed', data: {} }
const massTransit = {
  messageId: 'm',
  messageType: ['urn:message:Contracts:OrderPlaced', 'urn:message:Contracts:IOrder'],
  message: {},
}
registerMessageTypes('broker-of-types', (raw) => Reflect.get(raw, 'type'))
registerMessageTypes('broker-that-throws', () => {
  throw new Error('another client')
})

describe('the default of `type` reads', () => {
  test.each([
    ['CloudEvents, binary mode', bare(1, { ce_type: 'order.placed' })],
    ['CloudEvents of HTTP', bare(1, { 'ce-type': 'order%2Eplaced' })],
    ['CloudEvents, structured mode', bare(event)],
    ['the header `type`', bare(1, { type: 'order.placed' })],
    ['EventBridge', bare(eventBridge)],
    ['a property of the broker', bare(1, {}, fromBroker('broker-of-types'))],
    ['the `pattern` of NestJS', bare({ pattern: 'order.placed', data: {} })],
    ['an attribute of SNS', bare(sns({}, { type: { Type: 'String', Value: 'order.placed' } }))],
    ['CloudEvents in SNS', bare(sns(event))],
    ['EventBridge in SNS', bare(sns(eventBridge))],
  ])('%s', (_, delivery) => {
    expect(typeOf(delivery)).toBe('order.placed')
    // A decoder may have kept only what the message wraps.
    expect(typeOf(delivery, { orderId: 'o' })).toBe('order.placed')
    if (delivery.raw === undefined) expect(messageTypeOf(delivery)).toBe('order.placed')
  })

  function fromBroker(broker: string): Partial<Delivery> {
    return { source: { broker, queue: 'q' }, raw: { type: 'order.placed' } }
  }

  test.each([
    ['of an envelope', bare(massTransit)],
    ['of a message without one', bare({}, { 'mt-messagetype': massTransit.messageType.join(';') })],
  ])('the first type of MassTransit %s that `on` has', (_, delivery) => {
    expect(typeOf(delivery)).toBe('Contracts:OrderPlaced')
    const interfaces = new Set(['urn:message:Contracts:IOrder'])
    const payload = JSON.parse(Buffer.from(delivery.body).toString())
    expect(messageType(interfaces)({ ...delivery, payload })).toBe('urn:message:Contracts:IOrder')
    expect(messageType(new Set())({ ...delivery, payload })).toBe(
      'urn:message:Contracts:OrderPlaced',
    )
  })

  test('a pattern of NestJS that is an object as its JSON', () => {
    expect(typeOf(bare({ pattern: { cmd: 'place' }, data: {} }))).toBe('{"cmd":"place"}')
  })

  test.each([
    ['a payload with a field `type`', bare({ type: 'order.placed' })],
    ['a payload with a field `pattern`', bare({ pattern: 'order.placed' })],
    ['an empty header', bare(1, { type: '' })],
    ['a broker whose message cannot be read', bare(1, {}, fromBroker('broker-that-throws'))],
    ['a broker without such a property', bare(1, {}, fromBroker('memory'))],
    ['a body that is no JSON object', bare('"pattern"')],
  ])('nothing in %s', (_, delivery) => {
    expect(typeOf(delivery)).toBeUndefined()
  })

  test('nothing, for operators, in a message that is refused', () => {
    const confirmation = { ...sns({}), Type: 'SubscriptionConfirmation' }
    expect(() => typeOf(bare(confirmation))).toThrow('Confirm the subscription')
    expect(messageTypeOf(bare(confirmation))).toBeUndefined()
  })

  test('in the order of the list', () => {
    const all = { ...event, ...massTransit, 'detail-type': 'bridge', pattern: 'nest' }
    expect(typeOf(bare(all, { type: 'header' }))).toBe('order.placed')
    const { specversion: _, ...others } = all
    expect(typeOf(bare(others, { type: 'header' }))).toBe('header')
    expect(typeOf(bare(others))).toBe('bridge')
    expect(typeOf(bare(others, { ce_type: 'binary', type: 'header' }))).toBe('binary')
  })
})
