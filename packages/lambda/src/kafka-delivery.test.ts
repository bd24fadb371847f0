import { ConfigurationError, type Delivery } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import { kafkaRecord } from './fixtures/events.ts'
import { rawsOf } from './fixtures/replay.ts'
import { lambdaKafka } from './index.ts'
import { toDelivery } from './kafka-delivery.ts'

const deliveryOf = (more: object): Delivery => toDelivery({ ...kafkaRecord({}), ...more })

const base64 = (...bytes: readonly number[]): string => Buffer.from(bytes).toString('base64')

test('a delivery contains everything that the event tells of a record, and raw is the record of kafkajs', () => {
  const { envelope, ...delivery } = deliveryOf({
    ...{ partition: 3, offset: 7, key: base64(0x6f, 0x31) },
    headers: [{ 'Content-Type': [97, 47, 98] }, { trace: [49] }, { trace: [50] }, { trace: [-1] }],
  })
  expect(envelope).toBeInstanceOf(Uint8Array)
  expect(delivery).toEqual({
    body: Buffer.from('{"a":1}'),
    headers: { 'content-type': 'a/b' },
    source: {
      ...{ broker: 'kafka', queue: 'orders', position: '3/7' },
      incarnation: ':1763805600000',
    },
    contentType: 'a/b',
    contentEncoding: undefined,
    orderingKey: 'o1',
    producedAt: new Date(1_763_805_600_000),
    redelivered: true,
    raw: {
      ...{ topic: 'orders', partition: 3 },
      message: {
        ...{ key: Buffer.from('o1'), value: Buffer.from('{"a":1}'), attributes: 0 },
        ...{ timestamp: '1763805600000', offset: '7' },
        headers: {
          'Content-Type': Buffer.from('a/b'),
          trace: [Buffer.from('1'), Buffer.from('2'), Buffer.of(0xff)],
        },
      },
    },
  })
})

test.each([{ topic: 5 }, { topic: undefined }, { key: 5 }, { value: [] }])(
  'a record with %j is no record of Kafka',
  (more) => {
    expect(() => deliveryOf(more)).toThrow(ConfigurationError)
    expect(() => deliveryOf(more)).toThrow(/records of Kafka/)
  },
)

test('a header is a list of bytes, signed or not, and its last value is the text of the delivery', () => {
  const { headers, raw } = deliveryOf({
    headers: [
      { Low: [-128], high: [255], LAST: [0xc3, 0xa4], bom: [0xef, 0xbb, 0xbf, 49] },
      { last: [50] },
      { low: [-129] },
      { wide: [256] },
      { half: [0.5] },
      { text: [49, '50'] },
      { none: null },
      'no header',
    ],
  })
  expect(headers).toEqual({ last: '2', bom: '\ufeff1' })
  const bytes = (raw as { readonly message: { readonly headers: object } }).message.headers
  expect(bytes).toStrictEqual({
    ...{ Low: Buffer.of(0x80), high: Buffer.of(0xff), LAST: Buffer.from('ä') },
    ...{ bom: Buffer.of(0xef, 0xbb, 0xbf, 49), last: Buffer.from('2') },
  })
})

describe('partition and offset', () => {
  test.each([
    [3, 7],
    ['3', '7'],
    ['03', '007'],
  ])('%j and %j are one place', (partition, offset) => {
    const { raw, source } = deliveryOf({ partition, offset })
    expect(source.position).toBe('3/7')
    expect(raw).toMatchObject({ partition: 3, message: { offset: '7' } })
  })
})

test.each(['{"text":"schön"}', '', null])(
  'a replayed dead letter has its record in raw again: %j',
  async (value) => {
    const record = { ...kafkaRecord({ value, laneKey: 'o-1' }), headers: [{ a: [1] }, { a: [2] }] }
    const [first, again, ...rest] = await rawsOf((guard, isEmpty) =>
      lambdaKafka(guard)({ records: { 'orders-0': isEmpty ? [] : [record] } }),
    )
    const expected = value === null ? null : Buffer.from(value)
    expect(first).toMatchObject({ topic: 'orders', message: { value: expected } })
    expect(again).toEqual(first)
    expect(rest).toEqual([])
  },
)

test('the value is stored once', () => {
  const value = base64(...Buffer.alloc(10_000, 'x'))
  expect(deliveryOf({ value }).envelope?.byteLength).toBeLessThan(2_000)
})
