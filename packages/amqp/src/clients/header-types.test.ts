import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { encodable, LARGEST_TIMESTAMP } from './header-types.ts'

const load = createRequire(import.meta.url)
interface Codec {
  encodeTable(buffer: Buffer, table: object, offset: number): number
  decodeFields(bytes: Buffer): Readonly<Record<string, unknown>>
}
const codec = load(join(dirname(load.resolve('amqplib')), 'lib/codec.js')) as Codec

const LENGTH_BYTES = 4

/** What the next consumer reads of a value that amqplib has read here. */
function readAgain(value: unknown): unknown {
  const buffer = Buffer.alloc(10_000)
  const end = codec.encodeTable(buffer, encodable({ value }), 0)
  return codec.decodeFields(buffer.subarray(LENGTH_BYTES, end))['value']
}

const TWO_TO_50 = 2 ** 50
const TWO_TO_63 = 2 ** 63

describe('a header is read again as it was read', () => {
  test.each([
    ...[Number.NaN, Infinity, -Infinity, 0, -0, 0.1, -0.1, 1e300, -1e300, 1e-300],
    ...[TWO_TO_50, TWO_TO_50 - 0.25, TWO_TO_50 + 0.25, 0.25 - TWO_TO_50, -TWO_TO_50 - 0.25],
    ...[TWO_TO_63, TWO_TO_63 - 1_024, -TWO_TO_63, 1_024 - TWO_TO_63, -TWO_TO_63 - 2_048],
  ])('the number %d', (value) => {
    expect(readAgain(value)).toBe(value)
  })

  const decimal = (value: object): object => ({ '!': 'decimal', value })
  const timestamp = (value: unknown, more = {}): object => ({ '!': 'timestamp', value, ...more })

  test.each<[string, unknown]>([
    ['a timestamp', timestamp(1_700_000_000)],
    ['the first timestamp', timestamp(0)],
    ['the largest timestamp', timestamp(LARGEST_TIMESTAMP)],
    ['a table like a negative timestamp', timestamp(-1)],
    ['a table like a timestamp that is not whole', timestamp(1.5)],
    ['a table like a timestamp of no number', timestamp('now')],
    ['a table like a timestamp with another field', timestamp(1, { zone: 'UTC' })],
    ['a table like a timestamp without a value', { '!': 'timestamp' }],
    ['a decimal', decimal({ places: 2, digits: 1_250 })],
    ['the smallest decimal', decimal({ places: 0, digits: 0 })],
    ['the largest decimal', decimal({ places: 255, digits: 2 ** 32 - 1 })],
    ['a table like a decimal with too many places', decimal({ places: 256, digits: 1 })],
    ['a table like a decimal with negative places', decimal({ places: -1, digits: 1 })],
    ['a table like a decimal with too many digits', decimal({ places: 1, digits: 2 ** 32 })],
    ['a table like a decimal with digits that are not whole', decimal({ places: 1, digits: 0.5 })],
    ['a table like a decimal with a text', decimal({ places: '1', digits: 1 })],
    ['a table like a decimal with another field', decimal({ places: 1, digits: 1, unit: 'EUR' })],
    ['a table like a decimal without a value', { '!': 'decimal' }],
    ['a table with a type that nobody knows', { '!': 'money', value: 5 }],
    ['a table with a list in place of a type', { '!': [1], value: 5 }],
    ['tables and lists', [{ a: [{ '!': 5 }, -0, Buffer.from('x')] }, null, true, 'ü']],
  ])('%s, among headers', (_what, value) => {
    expect(readAgain(value)).toEqual(value)
  })
})

test('a timestamp that amqplib reads and cannot write becomes the largest that it can', () => {
  expect(readAgain({ '!': 'timestamp', value: 2 ** 64 })).toEqual({
    '!': 'timestamp',
    value: LARGEST_TIMESTAMP,
  })
})

// Only a user's own extra header is one: amqplib reads none.
test('a bigint is written as a whole number', () => {
  expect(readAgain(5n)).toBe(5)
  expect(readAgain([-(2n ** 40n)])).toEqual([-(2 ** 40)])
})

test('bytes of any kind are written as bytes', () => {
  const bytes = new Uint8Array([0, 1, 2, 3]).subarray(1, 3)
  expect(readAgain(bytes)).toEqual(Buffer.from([1, 2]))
})
