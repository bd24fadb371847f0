import { hash } from 'node:crypto'
import { InvalidPayloadError } from '@onceward/core'
import { describe, expect, test } from 'vitest'
import { type Decode, decodeRequest, isJsonType, isKnownCoding } from './content.ts'
import type { HttpRequest } from './request.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const asked = { method: 'POST', route: '/charges?a=1' }

const decoded = (bytes: Uint8Array, decode?: Decode, schema?: unknown) =>
  decodeRequest(
    { request: { method: 'POST', bytes } as HttpRequest, target: '/charges?a=1' },
    bytes,
    { decode, schema },
  )

describe('what is compared of a request', () => {
  test('is its canonical JSON', () => {
    const json = { cents: 500 }
    expect(decoded(bytesOf('{"cents":500}'))).toEqual({
      content: { ...asked, json },
      payload: json,
    })
    expect(decoded(new Uint8Array())).toEqual({ content: { ...asked, json: null }, payload: null })
  })

  test.each(['{"a":"\\ud800"}', '{"a":"\\uD800"}', '{"a":12345678901234567890}'])(
    'is the hash of its bytes if canonical JSON cannot say it: %s',
    (text) => {
      const bytes = bytesOf(text)
      expect(decoded(bytes)).toEqual({
        content: { ...asked, sha256: hash('sha256', bytes, 'hex') },
        payload: JSON.parse(text),
      })
    },
  )

  test.each(['{"cents":500}', '[1]', '5', 'null', '', '\ufeff{"cents":500}'])(
    'is no part of the value that a schema gets, which may change it: %j',
    async (text) => {
      const bytes = bytesOf(text)
      const plain = await decoded(bytes)
      const checked = await decoded(bytes, undefined, {})
      expect(checked).toEqual(plain)
      if (typeof checked.payload === 'object')
        Object.assign(checked.payload ?? {}, { changed: true })
      expect(checked.content).toEqual(plain.content)
    },
  )

  test('is not what stands beside it in memory', () => {
    const bytes = bytesOf('"\\ud800"{"a":1}"\\ud800"').subarray(8, 15)
    expect(decoded(bytes)).toMatchObject({ content: { json: { a: 1 } } })
  })

  test('is the hash of its bytes as they came if `decode` is set, which may change them', async () => {
    const sha256 = hash('sha256', bytesOf('abc'), 'hex')
    const decode: Decode = (bytes, { method }) => {
      bytes.fill(0)
      return method
    }
    const expected = { content: { ...asked, sha256 }, payload: 'POST' }
    expect(decoded(bytesOf('abc'), decode)).toEqual(expected)
    expect(await decoded(bytesOf('abc'), async (...given) => decode(...given))).toEqual(expected)
  })

  // Red when `decode` gets the bytes of the request: a webhook that runs later was stored as what `decode` left of it.
  test('stays as it came when `decode` changes what it gets', () => {
    const bytes = bytesOf('abc')
    void decoded(bytes, (given) => given.fill(0))
    expect(bytes).toEqual(bytesOf('abc'))
  })
})

test('a body that is no JSON is refused without its text', () => {
  let error: unknown
  try {
    void decoded(bytesOf('{hunter2'))
  } catch (thrown) {
    error = thrown
  }
  expect(error).toEqual(new InvalidPayloadError('The body is not JSON in UTF-8.'))
  expect(Object(error).cause).toBeInstanceOf(InvalidPayloadError)
})

test.each([
  [undefined, true],
  ['', true],
  [' ; charset=latin1', true],
  ['application/json', true],
  ['Application/JSON ; Charset=UTF-8', true],
  ['application/json;charset="utf8"', true],
  ['application/json; a=b; charset=utf-8', true],
  ['application/vnd.api+json', true],
  ['application/json; charset=latin1', false],
  ['application/json; charset=utf-88', false],
  ['application/json; charset=xutf-8', false],
  ['application/json; charset=charset=utf-8', false],
  ['application/json; x-charset=latin1', true],
  ['application/jsonp', false],
  ['xapplication/json', false],
  ['application/+json', false],
  ['application/x json', false],
  ['text/json', false],
])('the default decoder reads the content type %s: %s', (type, isRead) => {
  expect(isJsonType(type)).toBe(isRead)
})

test.each([
  [undefined, true],
  ['', true],
  [' Identity ', true],
  ['GZip', true],
  ['deflate, br', true],
  ['identity, zstd', false],
])('the content coding %s is one that the guard removes: %s', (coding, isKnown) => {
  expect(isKnownCoding(coding)).toBe(isKnown)
})
