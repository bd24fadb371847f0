import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CanonicalJson } from './canonical-json.ts'
import { smallCanonicalJson } from './small-canonical-json.ts'

/** Undefined where there is none. */
function canonicalText(value: unknown): string | undefined {
  try {
    const json = new CanonicalJson(value)
    let text = ''
    for (let piece = json.next(); piece !== undefined; piece = json.next()) text += piece
    return text
  } catch {
    return undefined
  }
}

/** Names as producers write them, and names that JavaScript sorts in its own way. */
const name = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 3 }),
  fc.constantFrom('1', '2', '10', '__proto__', 'toJSON', 'a', 'b'),
)
const members = { maxLength: 4, depthIdentifier: 'json' }
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { depthIdentifier: 'json', maxDepth: 4 },
    fc.constantFrom(null, true, 0, -0, 1e21, 1e-7, 1.5, Number.NaN, Number.POSITIVE_INFINITY),
    fc.string({ unit: 'binary', maxLength: 4 }),
    fc.array(tie('json'), members),
    fc.array(fc.tuple(name, tie('json')), members).map((all) => Object.fromEntries(all)),
  ),
}))

/** What a decoder of the user's may answer. */
const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withNullPrototype: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
})

test('is the canonical text, or none', () => {
  let written = 0
  fc.assert(
    fc.property(fc.oneof(json, anything), (value) => {
      const text = smallCanonicalJson(value)
      if (text === undefined) return
      written += 1
      expect(text).toBe(canonicalText(value))
    }),
    { numRuns: 5_000 },
  )
  expect(written).toBeGreaterThan(1_000)
})

test('is there for a message as producers write it', () => {
  const order = { paid: true, lines: [{ sku: 'a', cents: 1_999 }], ref: null, at: '2026-11-25' }
  expect(smallCanonicalJson(order)).toBe(
    '{"at":"2026-11-25","lines":[{"cents":1999,"sku":"a"}],"paid":true,"ref":null}',
  )
})

test('is there for names of all kinds, and objects without a prototype', () => {
  const odd = Object.assign(Object.create(null), { $ref: 1, '': 2, ':': 3, ' ': 4 })
  expect(smallCanonicalJson(odd)).toBe('{"":2," ":4,"$ref":1,":":3}')
})

class Point {
  readonly x = 1
}

const circle: Record<string, unknown> = {}
circle.self = circle

test.each<[string, unknown]>([
  ['a name that begins with a digit', { '1a': 1 }],
  ['the name of the prototype', JSON.parse('{"__proto__":1}')],
  ['a lone surrogate', '\ud800'],
  ['a lone surrogate in a name', { '\ud800': 1 }],
  ['a number that JSON has not', [Number.NaN]],
  ['what JSON leaves out', { a: undefined }],
  ['a function', { a: () => 1 }],
  ['a bigint', 1n],
  ['an object with a text of its own', { a: new Date(0) }],
  ['a value with toJSON', { toJSON: 1 }],
  ['an instance of a class', new Point()],
  ['a boxed number', new Number(1)],
  ['a hole', new Array(2)],
  ['a circle', circle],
  ['many values', Array.from({ length: 300 }, () => 1)],
  ['deep nesting', JSON.parse(`${'['.repeat(300)}${']'.repeat(300)}`)],
  ['long texts', ['x'.repeat(40_000)]],
  ['long names', { ['x'.repeat(40_000)]: 1 }],
])('is not written for %s', (_name, value) => {
  expect(smallCanonicalJson(value)).toBeUndefined()
})
