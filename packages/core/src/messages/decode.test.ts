import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { seededRandom } from '../fixtures/random.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import type { Delivery } from '../model/delivery.ts'
import { describeError, InvalidPayloadError } from '../model/errors.ts'
import { decodeByUser, decodeJson, decodeJsonOrText } from './decode.ts'

const undecoded = (delivery: Delivery) => ({ delivery, body: delivery.body })
const withBody = (body: string | Uint8Array): Delivery =>
  toDelivery(null, { body: typeof body === 'string' ? new TextEncoder().encode(body) : body })
const decode = async (body: string | Uint8Array) => decodeJson(withBody(body).body)

describe('the default decoder', () => {
  test('reads JSON, with or without a byte order mark', async () => {
    expect((await decode('{"a":[1,"é"]}')).value).toEqual({ a: [1, 'é'] })
    expect((await decode('\ufeff{"a":1}')).value).toEqual({ a: 1 })
  })

  test('takes an empty body for null', async () => {
    expect(await decode('')).toEqual({ value: null, isExact: true })
  })

  test.each([
    ['text', 'hello'],
    ['a cut-off object', '{"a":'],
    ['two values', '1 2'],
    ['white space only', '  '],
    ['NaN', 'NaN'],
    ['bytes that are no UTF-8', Uint8Array.of(0x22, 0xff, 0x22)],
    ['an overlong sequence', Uint8Array.of(0x22, 0xc0, 0x80, 0x22)],
    ['an encoded surrogate', Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22)],
    ['UTF-16', Uint8Array.of(0xff, 0xfe, 0x31, 0x00)],
  ])('refuses %s', async (_name, body) => {
    await expect(decode(body)).rejects.toThrow(InvalidPayloadError)
  })

  test('reads of text/plain what is JSON, and takes else the text, but no bytes that are no text', () => {
    const decoded = (body: string): unknown => decodeJsonOrText(Buffer.from(body)).value
    expect(['"a"', 'a "b"', '{"a":', ''].map(decoded)).toEqual(['a', 'a "b"', '{"a":', null])
    expect(() => decodeJsonOrText(Uint8Array.of(0xff))).toThrow(InvalidPayloadError)
  })

  // Red when the error of JSON.parse is kept as the cause: it quotes the text, and causes are logged.
  test.each([
    'card 4111 1111',
    '{"card":"4111 1111"',
    '{"card":"4111 1111"} 4111',
    '["4111 1111",4111 1111]',
    '"4111\n"',
    'x in JSON at position 4111',
  ])('does not put the body into its error: %j', async (body) => {
    const error: unknown = await Promise.resolve(decode(body)).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(InvalidPayloadError)
    expect(JSON.stringify(describeError(error))).not.toContain('4111')
  })

  test('says where the body stops being JSON, if that is known', async () => {
    await expect(decode('{"a":1')).rejects.toThrow('The body is not JSON at position 6. Set')
    await expect(decode('{"a":"bcdef"')).rejects.toThrow('The body is not JSON at position 12. Set')
  })

  test('keeps a `__proto__` key as data', async () => {
    const { value } = await decode('{"__proto__":{"isAdmin":true},"a":1}')
    expect(Object.keys(value as object)).toEqual(['__proto__', 'a'])
    expect((value as { isAdmin?: boolean }).isAdmin).toBeUndefined()
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined()
  })

  test('reads 256 KiB, as one text and as nothing but brackets', async () => {
    const text = 'x\\"'.repeat(80_000)
    expect((await decode(`{"text":"${text}","n":12345678901234567890}`)).isExact).toBe(false)
    const depth = 128 * 1024
    expect((await decode('['.repeat(depth) + ']'.repeat(depth))).isExact).toBe(true)
  })

  test('keeps why a body is not UTF-8', async () => {
    const error: unknown = await decode(Uint8Array.of(0xff)).catch((thrown: unknown) => thrown)
    expect((error as Error).cause).toBeInstanceOf(TypeError)
  })
})

describe('a JSON text is exact', () => {
  const held = [
    '0',
    '-0',
    '0.0',
    '0e5',
    '1',
    '1.0',
    '100',
    '1e2',
    '1E+2',
    '0.7e-1',
    '-15e-1',
    '0.1',
    '-1.50',
    '1e23',
    '1.7976931348623157e308',
    '5e-324',
    '9007199254740991',
    '9007199254740992',
    '123456789012345680000',
    '0.30000000000000004',
    '"12345678901234567890123"',
    '"\\"12345678901234567890"',
    '{"12345678901234567890":1}',
  ]
  test.each(held)('when JavaScript holds every number: %s', async (text) => {
    expect(await decode(text)).toMatchObject({ isExact: true })
  })

  const rounded = [
    '9007199254740993',
    '-9007199254740993',
    '[1,{"id":12345678901234567890}]',
    '0.1234567890123456789',
    '1e400',
    '123456789012345678901',
    '{"a":"x","b":9007199254740993}',
    '1e-400',
    '5e-325',
    '9007199254740993.0',
  ]
  test.each(rounded)('not when a number was rounded: %s', async (text) => {
    expect(await decode(text)).toMatchObject({ isExact: false })
  })

  test('for every double in its shortest spelling, and for all safe integers', async () => {
    const random = seededRandom(3)
    const bits = new DataView(new ArrayBuffer(8))
    for (let round = 0; round < 5_000; round++) {
      bits.setUint32(0, Math.floor(random() * 2 ** 32))
      bits.setUint32(4, Math.floor(random() * 2 ** 32))
      const double = bits.getFloat64(0)
      if (!Number.isFinite(double)) continue
      expect(await decode(String(double)), String(double)).toMatchObject({ isExact: true })
      const integer = Math.floor(random() * Number.MAX_SAFE_INTEGER)
      expect(await decode(String(integer))).toMatchObject({ isExact: true })
    }
  })
})

describe("a user's decoder", () => {
  const through = async (value: unknown) =>
    decodeByUser(undecoded(withBody('1')), () => value, 'body')

  test('gets the body and the delivery, and may be asynchronous', async () => {
    const delivery = withBody('abc')
    const decodes = async (body: Uint8Array, seen: Delivery) => [body.byteLength, seen === delivery]
    const decoded = await decodeByUser(undecoded(delivery), decodes, 'body')
    expect(decoded).toEqual({ value: [3, true], isExact: true })
  })

  test.each(['none' as const, () => 1])('is not looked through for the rule %s', (rule) => {
    const decoded = decodeByUser(undecoded(withBody('1')), () => [1], rule)
    expect(decoded).toEqual({ value: [1], isExact: false })
  })

  test.each([
    ['plain JSON values', { a: [1, 'x', null, { b: true, c: undefined }] }],
    ['objects without a prototype', Object.assign(Object.create(null), { a: 1 })],
    ['dates', { at: new Date(0) }],
    ['objects of another realm', runInNewContext('({ a: [{ b: 1 }] })')],
    ['fractions', 0.1],
    ['a bigint', { id: 1n }],
  ])('is exact with %s', async (_name, value) => {
    expect(await through(value)).toMatchObject({ isExact: true })
  })

  const cycle: { self?: unknown } = {}
  cycle.self = cycle
  test.each([
    ['a map', new Map([['a', 1]])],
    ['a class', new (class Order {})()],
    ['bytes', new Uint8Array(2)],
    ['an integer that was rounded', [2 ** 53]],
    ['a cycle', cycle],
    ['a function', { f: () => 1 }],
    ['a class without a base', Object.create(Object.create(null))],
    ['a class that looks like Object', Object.create({ isPrototypeOf: 1 })],
  ])('is not exact with %s', async (_name, value) => {
    expect(await through(value)).toMatchObject({ isExact: false })
  })
})
