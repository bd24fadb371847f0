import { expect, test } from 'vitest'
import { toDelivery } from './index.ts'

test('toDelivery makes a JSON delivery of another event each time', () => {
  const one = toDelivery({ orderId: 'o-1' })
  expect(new TextDecoder().decode(one.body)).toBe('{"orderId":"o-1"}')
  expect(one).toMatchObject({
    source: { broker: 'memory', queue: 'memory' },
    headers: { 'idempotency-key': one.messageId },
    contentType: 'application/json',
  })
  expect(toDelivery({ orderId: 'o-1' }).messageId).not.toBe(one.messageId)
})

test('toDelivery replaces whole fields, and makes header names lower-case like the adapters', () => {
  const body = Uint8Array.of(0xff)
  expect(toDelivery(null, { body, headers: { 'Order-Id': '7' }, redelivered: true })).toMatchObject(
    {
      body,
      headers: { 'order-id': '7' },
      redelivered: true,
    },
  )
  expect(toDelivery(null, { headers: {} }).headers).toEqual({})
  expect(toDelivery(null, { messageId: 'm' }).headers).toEqual({ 'idempotency-key': 'm' })
})

test('toDelivery makes an empty body for undefined', () => {
  expect(toDelivery(undefined).body).toHaveLength(0)
})
