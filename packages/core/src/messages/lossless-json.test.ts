import { expect, test } from 'vitest'
import { InvalidPayloadError } from '../model/errors.ts'
import { losslessJson } from './lossless-json.ts'
import { roundedPath } from './rounded-path.ts'

const read = (text: string): unknown => losslessJson()(Buffer.from(text))

test.each<[string, unknown]>([
  ['1234567890123456789', 1234567890123456789n],
  ['[-9007199254740993, 9007199254740991]', [-9007199254740993n, 9_007_199_254_740_991]],
  ['{"a":{"b":[18446744073709551615]}}', { a: { b: [18446744073709551615n] } }],
  // Integers alone: a decimal has as many digits as a double gives it, as ever.
  ['[1e300, 1.5, 0.12345678901234566, -0]', [1e300, 1.5, 0.12345678901234566, -0]],
  ['"1234567890123456789"', '1234567890123456789'],
  [
    '{"__proto__":1234567890123456789}',
    JSON.parse('{"__proto__":1}', (_, v) => (v === 1 ? 1234567890123456789n : v)),
  ],
  ['', null],
])('losslessJson() reads %s', (text, value) => {
  expect(read(text)).toEqual(value)
})

test.each([
  ['no JSON', Buffer.from('{"id":1234567890123456789'), /The body is not JSON/],
  ['no UTF-8', Uint8Array.of(0x22, 0xff, 0x22), /The body is not UTF-8/],
  [
    'too deep',
    Buffer.from(`${'['.repeat(200_000)}1234567890123456789${']'.repeat(200_000)}`),
    /too deep/,
  ],
])('losslessJson() refuses what is %s, without a word of the message', (_what, body, message) => {
  expect(() => losslessJson()(body)).toThrow(InvalidPayloadError)
  expect(() => losslessJson()(body)).toThrow(message)
})

test.each<[string, string | undefined]>([
  ['12345678901234567890123', undefined],
  ['1e300', undefined],
  ['9007199254740993', '.'],
  ['{"a":[1,{"b":-9007199254740993}]}', 'a[].b'],
  ['{"a":9007199254740991}', undefined],
])('the path of a rounded integer in %s is %s', (text, path) => {
  expect(roundedPath(JSON.parse(text))).toBe(path)
})

test('looks at what contains itself once, and at no more values than it may', () => {
  const list: unknown[] = [0, 2 ** 53]
  list.unshift(list)
  expect(roundedPath(list)).toBe('[]')
  expect(roundedPath(Array(1_000).fill(1), 10)).toBeUndefined()
})
