import { expect, test } from 'vitest'
import { toDelivery } from '../memory/to-delivery.ts'
import type { Delivery } from '../model/delivery.ts'
import { messageHash, registerMessageTraits } from './adapter-registry.ts'

const source = { broker: 'amqp', queue: 'orders', position: '7' }
const HEADERS = { b: '2', a: '1', c: '3' }
const hashOf = (over: Partial<Delivery> = {}, consumer: string | number = 'billing'): string =>
  messageHash(consumer, toDelivery(1, { source, messageId: 'm-1', headers: HEADERS, ...over }))

test('a message has one hash, whatever the order of its headers and however often it was delivered', () => {
  // Stored hashes must fit those of every later version.
  expect(hashOf()).toBe('44fd3648e89c6c13efaf6892f040d841b869df915710d1ba4a4336b4dbe770db')
  for (const headers of [
    { a: '1', b: '2', c: '3' },
    { c: '3', b: '2', a: '1' },
    { ...HEADERS, 'x-death': '1' },
    { ...HEADERS, 'x-first-death-queue': 'q', 'x-last-death-reason': 'r' },
    { ...HEADERS, 'x-delivery-count': '4', 'x-acquired-count': '5' },
  ]) {
    expect(hashOf({ headers })).toBe(hashOf())
  }
})

test('any other difference makes another hash', () => {
  const hashes = [
    hashOf(),
    hashOf({}, 'shipping'),
    hashOf({}, 7),
    hashOf({ messageId: 'm-2' }),
    hashOf({ source: { ...source, broker: 'sqs' } }),
    hashOf({ source: { ...source, queue: 'refunds' } }),
    hashOf({ source: { ...source, position: '8' } }),
    hashOf({ body: Buffer.from('2') }),
    hashOf({ headers: { ...HEADERS, a: '2' } }),
    hashOf({ headers: { ...HEADERS, 'my-x-death': '1' } }),
    hashOf({ headers: {} }),
  ]
  expect(new Set(hashes).size).toBe(hashes.length)
})

test('headers that JSON refuses are left out, and all else still counts', () => {
  const odd = (over: object): string => hashOf({ headers: { a: '1', odd: 5n, ...over } as never })
  expect(odd({})).toMatch(/^[0-9a-f]{64}$/)
  expect(odd({ odd: 6n })).toBe(odd({}))
  expect(odd({ a: '2' })).not.toBe(odd({}))
  expect(hashOf({ headers: { a: '1', odd: 5n } as never, messageId: 'm-2' })).not.toBe(odd({}))
})

test("what a broker's adapter reads from the message counts too, and an object that it cannot read does not", () => {
  const other = { broker: 'traits-only', queue: 'orders' }
  const before = hashOf({ source: other, raw: { type: 'order' } })
  registerMessageTraits(other.broker, (raw) => (raw as { type: string }).type.toUpperCase())
  const withRaw = (raw: unknown): string => hashOf({ source: other, raw })
  expect(withRaw({ type: 'order' })).not.toBe(before)
  expect(withRaw({ type: 'order' })).toBe(withRaw({ type: 'Order' }))
  expect(withRaw({ type: 'order' })).not.toBe(withRaw({ type: 'refund' }))
  for (const unreadable of [{}, null, undefined, 'order']) expect(withRaw(unreadable)).toBe(before)
})
