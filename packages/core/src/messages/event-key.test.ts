import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { randomText, seededRandom } from '../fixtures/random.ts'
import { eventIdOf } from '../identity/event-id.ts'
import { InvalidPayloadError } from '../model/errors.ts'
import { toEventKey } from './event-key.ts'

test('takes any well-formed text of 1 to 1024 bytes as it is', () => {
  const random = seededRandom(7)
  for (let round = 0; round < 1_000; round++) {
    const text = `k${randomText(random)}`
    expect(toEventKey(text)).toBe(text)
  }
  expect(toEventKey('x'.repeat(1_024))).toHaveLength(1_024)
  expect(toEventKey('\u0000')).toBe('\u0000')
})

test('takes safe integers as their decimal text', () => {
  expect([0, -0, 42, -7, Number.MAX_SAFE_INTEGER].map((value) => toEventKey(value))).toEqual([
    '0',
    '0',
    '42',
    '-7',
    '9007199254740991',
  ])
})

test('takes a bigint as its decimal text, as it takes the same safe integer', () => {
  expect([0n, -7n, 1234567890123456789n].map((value) => toEventKey(value))).toEqual([
    '0',
    '-7',
    '1234567890123456789',
  ])
})

// Red before: such a message was dead, as the object keys of S3 are that are not ASCII.
test('replaces a key of more than 1024 bytes by its marked hash, once', () => {
  const long = `bucket/${'%E3%81%82'.repeat(300)}/005f`
  for (const text of ['x'.repeat(1_025), 'é'.repeat(513), long]) {
    const key = toEventKey(text)
    expect(key).toBe(`sha256:${createHash('sha256').update(text).digest('hex')}`)
    expect(toEventKey(key)).toBe(key)
    // What operators type is the key of the producer.
    expect(eventIdOf('billing', text, text)).toBe(eventIdOf('billing', String(key), String(key)))
  }
  expect(toEventKey(`${long}0`)).not.toBe(toEventKey(long))
  expect(toEventKey('é'.repeat(512))).toBe('é'.repeat(512))
})

test('finds none in undefined and null', () => {
  expect(toEventKey(undefined)).toBeUndefined()
  expect(toEventKey(null)).toBeUndefined()
})

test.each([
  ['an empty text', ''],
  ['a lone high surrogate', 'order-\ud83c'],
  ['a lone low surrogate', '\udf4forder'],
  ['an integer that JSON.parse rounded', JSON.parse('9007199254740993')],
  ['a fraction', 1.5],
  ['NaN', Number.NaN],
  ['a boolean', true],
  ['an object', { id: 1 }],
])('refuses %s', (_name, value) => {
  expect(() => toEventKey(value)).toThrow(InvalidPayloadError)
})

test('trap T30: two lone surrogates, which UTF-8 encodes alike, are not one key', () => {
  expect(Buffer.from('\ud800')).toEqual(Buffer.from('\ud801'))
  expect(() => toEventKey('\ud800')).toThrow('lone surrogate')
})
