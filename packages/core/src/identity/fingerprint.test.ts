import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { randomText, seededRandom } from '../fixtures/random.ts'
import { toDelivery } from '../memory/to-delivery.ts'
import { unwrapEventBridge, unwrapSns } from '../messages/aws-envelopes.ts'
import { unwrapCloudEvent } from '../messages/cloud-event.ts'
import { unwrapConfluent } from '../messages/confluent.ts'
import { debezium } from '../messages/debezium.ts'
import { decodeByUser, decodeJson } from '../messages/decode.ts'
import { unwrapMassTransit, unwrapS3Pointer } from '../messages/envelopes.ts'
import { losslessJson } from '../messages/lossless-json.ts'
import type { Fingerprint } from '../model/brands.ts'
import { isConflict } from '../model/state-machine.ts'
import type { FingerprintRule } from '../options/resolved-options.ts'
import { FINGERPRINT_RULES, fingerprintOf, fingerprintRuleOf } from './fingerprint.ts'

interface Given {
  readonly rule?: FingerprintRule | undefined
  readonly payload?: unknown
  readonly decode?: ((body: Uint8Array) => unknown) | undefined
}

async function printOf(text: string, given: Given = {}): Promise<Fingerprint> {
  const body = new TextEncoder().encode(text)
  const { decode, rule = 'body' } = given
  const decoded = await (decode === undefined
    ? decodeJson(body)
    : decodeByUser({ body, delivery: toDelivery(null, { body }) }, decode, rule))
  const payload = 'payload' in given ? given.payload : decoded.value
  const version = typeof rule === 'function' ? 2 : fingerprintRuleOf(rule, decode)
  return fingerprintOf(rule, { body, decoded, payload, version })
}

const versionOf = (print: Fingerprint): number => Number(BigInt.asUintN(8, print))

test('never changes: a changed fingerprint is a conflict for every event in flight', async () => {
  const prints: readonly (readonly [string, bigint])[] = [
    ['{"b":2,"a":1}', 4_838_428_403_541_468_929n],
    ['', 8_368_618_950_277_679_361n],
    ['null', 8_368_618_950_277_679_361n],
    ['"text"', 2_169_907_247_541_024_257n],
    [
      '{"orderId":"o-1","cents":1999,"lines":[{"sku":"B-7","qty":2},{"qty":1,"sku":"A-1"}],"paid":true,"note":null}',
      -2_984_661_982_780_371_455n,
    ],
    [
      '{"n":1e2,"f":0.1,"z":-0,"big":9007199254740991,"lon":13.404953999999975}',
      -3_611_040_863_539_984_127n,
    ],
    [
      '{"\\u20ac":1,"\\r":2,"1":3,"10":4,"9":5,"\\u00e9":"\\ud83d\\ude00"}',
      -2_837_491_932_866_057_983n,
    ],
    ['{"__proto__":{"a":1},"toJSON":2}', -1_058_358_535_046_503_679n],
    ['12345678901234567890', 7_986_647_882_224_287_233n],
    ['{"id":9007199254740993}', 2_415_478_755_934_851_585n],
    ['"\\ud800"', -8_355_204_402_735_785_471n],
  ]
  for (const [text, print] of prints) expect(await printOf(text), text).toBe(print)
  expect(await printOf('1', { rule: () => ({ b: 2, a: 1 }) })).toBe(4_838_428_403_541_468_930n)
})

// Red when what the engine writes itself differs from what the library writes.
test('is taken of the text that RFC 8785 gives the body', async () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('10', '9', '__proto__', 'toJSON', 'é', '\u{fb33}', '😀', '\ud800'),
  )
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      name,
      fc.double(),
      fc.constantFrom(null, true, -0, 1e21, 5e-324),
      tie('list'),
      tie('object'),
    ),
    list: fc.array(tie('value'), { maxLength: 4 }),
    object: fc.dictionary(name, tie('value'), { maxKeys: 5 }),
  }))
  const check = fc.asyncProperty(value, async (payload) => {
    const body = JSON.stringify(payload)
    expect(await printOf(body)).toBe(printByLibrary(JSON.parse(body), body))
  })
  await fc.assert(check, { numRuns: 100 })
})

test.each<[string, unknown]>([
  ['a function that is called for the JSON', { b: 1, toJSON: () => ({ b: 2, a: 1 }) }],
  ['a date', { at: new Date(5) }],
  ['a number that JSON has not', [Number.NaN]],
  ['a number in an object', [Object(3)]],
])('is taken of the text of the library for %s', (_, value) => {
  const decoded = { value, isExact: true }
  const content = { body: Buffer.from('x'), decoded, payload: value, version: 1 }
  expect(fingerprintOf('body', content)).toBe(printByLibrary(value, 'x'))
})

/** @param body - Taken for a value without a canonical text, as a lone surrogate is. */
function printByLibrary(value: unknown, body: string): bigint {
  let text = body
  try {
    text = canonicalize(value) ?? body
  } catch {
    // It has none.
  }
  const digest = createHash('sha256').update(text).digest('hex')
  return BigInt.asIntN(64, BigInt(`0x${digest.slice(0, 14)}01`))
}

test('is a signed 64-bit integer with the version of its rule in the low 8 bits', async () => {
  const random = seededRandom(11)
  for (let round = 0; round < 500; round++) {
    const text = JSON.stringify({ text: randomText(random) })
    const print = await printOf(text)
    expect(BigInt.asIntN(64, print)).toBe(print)
    expect(versionOf(print)).toBe(1)
    expect(versionOf(await printOf(text, { rule: (payload) => payload }))).toBe(2)
    expect(await printOf(text, { rule: 'none' })).toBe(0n)
  }
})

test('numbers its rules, one byte each, none twice', () => {
  // A number that is taken for another rule would make conflicts of what older versions stored.
  expect(FINGERPRINT_RULES).toEqual({
    ...{ none: 0, body: 1, function: 2 },
    ...{ sns: 3, eventBridge: 4, massTransit: 5, cloudEvent: 6, s3: 7 },
  })
})

describe('the version of a guard', () => {
  const mine = (body: Uint8Array): unknown => JSON.parse(String(body))
  const other = (body: Uint8Array): unknown => JSON.parse(String(body)).event
  const registry = (message: { readonly bytes: Uint8Array }): unknown => message.bytes
  const amount = (payload: unknown): unknown => Object(payload).amount
  const DECODERS: readonly unknown[] = [
    ...[losslessJson(), unwrapSns(), unwrapSns(losslessJson()), unwrapSns(mine)],
    ...[unwrapEventBridge(), unwrapEventBridge(losslessJson()), unwrapCloudEvent()],
    ...[unwrapCloudEvent(mine), unwrapMassTransit(), unwrapMassTransit(mine), debezium()],
    ...[debezium(unwrapConfluent(registry)), unwrapConfluent(registry), mine, other],
    unwrapS3Pointer(() => undefined),
  ]

  // Red when a first `decode` keeps the version: every event that waits is a conflict, and its effect never happens.
  test('differs for each decoder, and is the same in each process', () => {
    const versions = DECODERS.map((decode) => fingerprintRuleOf('body', decode))
    expect(new Set([0, 1, 2, 3, 4, 5, 6, 7, ...versions]).size).toBe(8 + DECODERS.length)
    // Rows have these numbers.
    expect(fingerprintRuleOf('body', losslessJson())).toBe(57)
    expect(fingerprintRuleOf('body', unwrapSns())).toBe(205)
    for (const version of versions) expect(version).toBeLessThan(256)
  })

  test('is that of rows of earlier versions if nothing of the user reads the body', () => {
    expect(fingerprintRuleOf('body', undefined)).toBe(1)
    expect(fingerprintRuleOf('none', mine)).toBe(0)
  })

  test('differs for each function that the user compares by', () => {
    const rules = [() => 1, amount].map((rule) => fingerprintRuleOf(rule, undefined))
    expect(new Set([...rules, fingerprintRuleOf(amount, mine)]).size).toBe(3)
  })
})

describe('of the body', () => {
  test('acceptance A9: is the same whatever the order of keys, the white space and the spelling of numbers', async () => {
    const one = await printOf('{"a":1,"b":{"c":[1,2],"d":"\\u00e9"},"n":100}')
    expect(await printOf('{ "n": 1e2, "b": {"d":"é","c":[ 1, 2.0 ]}, "a": 1.0 }')).toBe(one)
  })

  test.each([
    ['another value', '{"a":1}', '{"a":2}'],
    ['the order of a list', '[1,2]', '[2,1]'],
    ['null and a missing key', '{"a":null}', '{}'],
    ['text and number', '{"a":"1"}', '{"a":1}'],
    [
      '64-bit integers that JSON.parse makes one',
      '{"id":9007199254740993}',
      '{"id":9007199254740992}',
    ],
    ['64-bit integers beyond that', '{"id":12345678901234567890}', '{"id":12345678901234567891}'],
    ['a `__proto__` key', '{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}'],
    ['a `__proto__` key and none', '{"__proto__":{"a":1}}', '{}'],
    ['lone surrogates', '"\\ud800"', '"\\ud801"'],
  ])('tells apart %s', async (_name, one, other) => {
    expect(JSON.stringify(one)).not.toBe(JSON.stringify(other))
    expect(isConflict(await printOf(one), await printOf(other))).toBe(true)
  })

  test('is taken before the schema: a default in it changes nothing', async () => {
    const text = '{"a":1}'
    expect(await printOf(text, { payload: { a: 1, currency: 'EUR' } })).toBe(await printOf(text))
  })

  test("is taken of what the user's decoder made, so that an envelope may change", async () => {
    const decode = (body: Uint8Array): unknown =>
      (JSON.parse(Buffer.from(body).toString()) as { event: unknown }).event
    const one = await printOf('{"sentAt":1,"event":{"a":1}}', { decode })
    expect(await printOf('{"sentAt":2,"event":{"a":1}}', { decode })).toBe(one)
    expect(await printOf('{"sentAt":1,"event":{"a":2}}', { decode })).not.toBe(one)
  })

  test('falls back to the raw bytes where the decoded value has no exact JSON', async () => {
    const decode = (body: Uint8Array): unknown => new Map([['body', body]])
    expect(await printOf('a', { decode })).toBe(await printOf('a', { decode }))
    expect(await printOf('a', { decode })).not.toBe(await printOf('b', { decode }))
    const roundingDecoder = (body: Uint8Array): unknown => JSON.parse(Buffer.from(body).toString())
    expect(await printOf('9007199254740993', { decode: roundingDecoder })).not.toBe(
      await printOf('9007199254740992', { decode: roundingDecoder }),
    )
  })
})

describe("of what the user's function returns", () => {
  test('looks at the payload after the schema and at nothing else', async () => {
    const rule = (payload: unknown): unknown => (payload as { amount: number }).amount
    const one = await printOf('{"amount":3,"sentAt":1}', { rule })
    expect(await printOf('{"amount":3,"sentAt":2}', { rule })).toBe(one)
    expect(await printOf('{"amount":4,"sentAt":2}', { rule })).not.toBe(one)
  })

  test('is never in conflict with one of the body or with none', async () => {
    const one = await printOf('1', { rule: () => 1 })
    expect(isConflict(one, await printOf('1'))).toBe(false)
    expect(isConflict(await printOf('1', { rule: 'none' }), await printOf('1'))).toBe(false)
  })

  test('may be undefined or a promise', async () => {
    const none = await printOf('1', { rule: () => undefined })
    expect(versionOf(none)).toBe(2)
    expect(none).not.toBe(await printOf('1', { rule: () => null }))
    expect(await printOf('1', { rule: async () => 5 })).toBe(await printOf('1', { rule: () => 5 }))
  })

  test('throws for what contains itself, as aliases of YAML do', async () => {
    const list: unknown[] = []
    list.push(list)
    await expect(printOf('1', { rule: () => list })).rejects.toThrow(TypeError)
  })

  test('holds bigints, and differs from texts and numbers that look like them', async () => {
    const of = (seen: unknown): Promise<unknown> => printOf('1', { rule: () => seen })
    const far = [...'x'.repeat(50_000)]
    const different = [1n, 2n, '1', 'n1', 1, [1n], ['n1'], [['s1'], 1n], [[1n], 's1'], { a: 1n }]
    const prints = await Promise.all([...different, [...far, 1n], [...far, 2n]].map(of))
    expect(new Set(prints).size).toBe(prints.length)
    expect(await of({ b: 2n, a: [1n] })).toBe(await of({ a: [1n], b: 2n }))
  })

  test('may hold bigints that the program has given a JSON', async () => {
    Object.assign(BigInt.prototype, { toJSON: () => 'big' })
    try {
      expect(await printOf('1', { rule: () => 1n })).toBe(await printOf('1', { rule: () => 'big' }))
      expect(await printOf('1', { rule: () => [1n] })).toBe(
        await printOf('1', { rule: () => ['big'] }),
      )
    } finally {
      Reflect.deleteProperty(BigInt.prototype, 'toJSON')
    }
  })

  const text = (payload: unknown): string => JSON.stringify(payload)
  // Red before: the JSON of each is empty, so that every payload was the same, and a conflict acked as a duplicate.
  test.each<readonly [string, (payload: unknown) => unknown]>([
    ['a map', (payload) => new Map([['is', payload]])],
    ['a form, as for multipart bodies', (payload) => formOf(text(payload))],
    ['the parameters of a form', (payload) => new URLSearchParams({ is: text(payload) })],
    [
      'a digest of WebCrypto',
      (payload) => crypto.subtle.digest('SHA-256', Buffer.from(text(payload))),
    ],
    ['a file', (payload) => new Blob([text(payload)])],
    ['a promise inside of it', (payload) => ({ is: Promise.resolve(payload) })],
    ['a form inside of it', (payload) => [{ is: formOf(text(payload)) }]],
    ['a function', (payload) => () => payload],
    ['a symbol', (payload) => Symbol(text(payload))],
  ])('is refused if the payload is not to be seen in it: %s', async (_, rule) => {
    await expect(printOf('1', { rule })).rejects.toThrow(/`fingerprint` .* Map, a FormData/)
  })

  test.each<readonly [string, (payload: unknown) => unknown]>([
    ['bytes', (payload) => new TextEncoder().encode(text(payload))],
    ['a date', (payload) => new Date(Number(payload))],
    ['an instance of a class', (payload) => new Amount(payload)],
  ])('may be %s', async (_, rule) => {
    expect(await printOf('1', { rule })).not.toBe(await printOf('2', { rule }))
  })

  test.each<readonly [string, unknown]>([
    ['object', {}],
    ['list', []],
    ['text', ''],
    ['list of bytes', new Uint8Array()],
    ['instance of a class', new (class Nothing {})()],
  ])('may be an empty %s', async (_, empty) => {
    expect(versionOf(await printOf('1', { rule: () => empty }))).toBe(2)
  })
})

class Amount {
  readonly amount: unknown
  constructor(amount: unknown) {
    this.amount = amount
  }
}

function formOf(text: string): FormData {
  const form = new FormData()
  form.set('is', text)
  return form
}
