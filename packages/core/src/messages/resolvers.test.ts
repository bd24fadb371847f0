import { describe, expect, test } from 'vitest'
import { randomText, seededRandom } from '../fixtures/random.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { DecodedDelivery, Delivery } from '../model/delivery.ts'
import { ConfigurationError, InvalidPayloadError } from '../model/errors.ts'
import {
  cloudEventKey,
  header,
  idempotencyKeyHeader,
  messageId,
  payloadHash,
  position,
  withDecoded,
} from './resolvers.ts'

const delivery = (
  overrides: Partial<Delivery> = {},
  payload: unknown = {},
): DecodedDelivery<unknown> => ({ ...toDelivery(payload, { headers: {}, ...overrides }), payload })
const withHeaders = (headers: Delivery['headers']): DecodedDelivery<unknown> =>
  delivery({ headers })

describe('cloudEventKey()', () => {
  const key = cloudEventKey()

  test.each([
    ['Kafka and SQS', 'ce_source', 'ce_id'],
    ['HTTP', 'ce-source', 'ce-id'],
    ['AMQP', 'cloudEvents:source', 'cloudEvents:id'],
    ['AMQP over JMS', 'cloudEvents_source', 'cloudEvents_id'],
  ])('reads the binary mode as %s spells it', (_name, source, id) => {
    expect(key(withHeaders({ [source]: '/orders', [id]: '42' }))).toBe('cloudevent:7:/orders:2:42')
  })

  test('gives the structured mode the same key', () => {
    const event = { specversion: '1.0', source: '/orders', id: '42', data: {} }
    expect(key(delivery({}, event))).toBe('cloudevent:7:/orders:2:42')
  })

  test('knows the structured mode by its content type too', () => {
    const event = { source: '/orders', id: '42' }
    for (const contentType of [
      'application/cloudevents+json',
      'Application/CloudEvents+JSON; charset=utf-8',
    ]) {
      expect(key(delivery({ contentType }, event))).toBe('cloudevent:7:/orders:2:42')
    }
    expect(key(delivery({}, event))).toBeUndefined()
    const batch = 'application/cloudevents-batch+json'
    expect(key(delivery({ contentType: batch }, event))).toBeUndefined()
  })

  test('finds the structured mode also when a schema dropped its attributes', () => {
    const event = { specversion: '1.0', source: '/orders', id: '42', data: {} }
    expect(key(withDecoded(delivery({}, { data: {} }), event))).toBe('cloudevent:7:/orders:2:42')
  })

  test('reads no other content type and no other text as the structured mode', () => {
    const event = { source: '/orders', id: '42' }
    for (const contentType of [
      'text/application/cloudevents+json',
      'application/cloudevents+jsonlines',
      'application/cloudevents+json-seq;a=b',
    ]) {
      expect(key(delivery({ contentType }, event))).toBeUndefined()
    }
    const contentType = 'application/cloudevents+json ; charset=utf-8'
    expect(key(delivery({ contentType }, event))).toBe('cloudevent:7:/orders:2:42')
  })

  test('goes on to the next spelling when one has no id', () => {
    const headers = { ce_source: '/a', 'ce-source': '/orders', 'ce-id': '42' }
    expect(key(withHeaders(headers))).toBe('cloudevent:7:/orders:2:42')
  })

  test('never takes an id without its source', () => {
    expect(key(withHeaders({ ce_source: '/orders' }))).toBeUndefined()
    expect(key(delivery({}, { specversion: '1.0', source: '/orders' }))).toBeUndefined()
    expect(key(withHeaders({ ce_id: '42' }))).toBeUndefined()
    expect(key(delivery({}, { specversion: '1.0', id: '42' }))).toBeUndefined()
    expect(key(delivery({}, null))).toBeUndefined()
    expect(key(delivery({}, 'text'))).toBeUndefined()
  })

  test('refuses attributes that are empty or no text', () => {
    expect(() => key(withHeaders({ ce_id: '', ce_source: '/orders' }))).toThrow(InvalidPayloadError)
    expect(() => key(withHeaders({ ce_id: '42', ce_source: '' }))).toThrow(InvalidPayloadError)
    const numbered = { specversion: '1.0', source: 5, id: '42' }
    expect(() => key(delivery({}, numbered))).toThrow(InvalidPayloadError)
    const event = { specversion: '1.0', source: '/orders', id: 42 }
    expect(() => key(delivery({}, event))).toThrow(InvalidPayloadError)
  })

  test('keeps any two pairs of source and id apart', () => {
    const random = seededRandom(5)
    const keys = new Map<string, string>()
    for (let round = 0; round < 2_000; round++) {
      const source = `${randomText(random, 2)}:`
      const id = `:${randomText(random, 2)}`
      const found = key(withHeaders({ ce_source: source, ce_id: id }))
      const pair = JSON.stringify([source, id])
      expect(keys.get(found ?? '') ?? pair).toBe(pair)
      keys.set(found ?? '', pair)
    }
    const one = key(withHeaders({ ce_source: 'a:1', ce_id: 'b' }))
    expect(key(withHeaders({ ce_source: 'a', ce_id: '1:b' }))).not.toBe(one)
  })
})

describe('headers', () => {
  test('idempotencyKeyHeader() reads the standard one, then the old one, then none', () => {
    const key = idempotencyKeyHeader()
    expect(key(withHeaders({ 'Idempotency-Key': 'a', 'X-Idempotency-Key': 'b' }))).toBe('a')
    expect(key(withHeaders({ 'x-idempotency-key': 'b' }))).toBe('b')
    expect(key(withHeaders({}))).toBeUndefined()
  })

  test('idempotencyKeyHeader(name) and header(name) read that one, whatever its case', () => {
    const headers = withHeaders({ 'order-id': '7', 'idempotency-key': 'a' })
    expect(idempotencyKeyHeader('Order-Id')(headers)).toBe('7')
    expect(header('ORDER-ID')(headers)).toBe('7')
  })

  test('an empty header is there', () => {
    expect(header('a')(withHeaders({ a: '' }))).toBe('')
  })

  test('what every object has is no header', () => {
    for (const name of ['constructor', '__proto__', 'toString']) {
      expect(header(name)(withHeaders({}))).toBeUndefined()
    }
  })

  test('a header without a name is a mistake in the configuration', () => {
    expect(() => header('')).toThrow(ConfigurationError)
    expect(() => header(5 as never)).toThrow(ConfigurationError)
  })
})

test('messageId() is the id of the message as it is', () => {
  expect(messageId()(delivery({ messageId: 'm-1' }))).toBe('m-1')
  expect(messageId()(delivery({ messageId: undefined }))).toBeUndefined()
})

test('payloadHash() distinguishes bodies by their bytes', () => {
  const hashOf = (payload: unknown) => payloadHash()(delivery({}, payload))
  expect(hashOf({ a: 1 })).toMatch(/^payload:64:[0-9a-f]{64}$/)
  expect(hashOf({ a: 1 })).toBe(hashOf({ a: 1 }))
  expect(hashOf({ a: 1 })).not.toBe(hashOf({ a: 2 }))
})

test('position() is broker, queue and place, or nothing', () => {
  const source = { broker: 'kafka', queue: 'orders', position: '3/42' }
  expect(position()(delivery({ source }))).toBe('position:5:kafka:6:orders:4:3/42')
  expect(position()(delivery())).toBeUndefined()
  expect(position()(delivery({ source: { ...source, position: '' } }))).toBeUndefined()
})

// Red when the incarnation is left out: records of a topic that was made anew would be duplicates of the old ones.
test('position() tells two logs apart in which a message stood at the same place', () => {
  const source = { broker: 'kafka', queue: 'orders', position: '3/42', incarnation: 'id:1' }
  const before = position()(delivery({ source }))
  expect(before).toBe('position:5:kafka:6:orders:4:3/42:4:id:1')
  expect(position()(delivery({ source: { ...source, incarnation: 'id:2' } }))).not.toBe(before)
})
