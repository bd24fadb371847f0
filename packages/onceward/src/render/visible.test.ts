import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cut, toJson, visible, visibleDeep, visibleLines } from './visible.ts'

/** What no terminal may get: controls, and what reorders or hides text. */
const OBEYED = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Surrogate}]/u

const text = fc.string({ unit: 'binary' })

test('no text has a character that a terminal obeys, whatever was in it', () => {
  fc.assert(fc.property(text, (any) => !OBEYED.test(visible(any))))
  fc.assert(fc.property(text, (any) => !OBEYED.test(visibleLines(any).replaceAll('\n', ''))))
})

test('readable text stays as it is', () => {
  const readable = 'order-4711 “Größe” 日本語 🎉 <script> \\n'
  expect(visible(readable)).toBe(readable)
})

test.each([
  ['\u001b]0;title\u0007', '\\u{1b}]0;title\\u{7}'],
  ['a\r\nb\tc', 'a\\r\\nb\\tc'],
  ['\u009b31m', '\\u{9b}31m'],
  ['\u202egnp.exe', '\\u{202e}gnp.exe'],
  ['\ud800', '\\u{d800}'],
  ['\u{13430}', '\\u{13430}'],
  ['\u{e0041}', '\\u{e0041}'],
])('%j is shown as %s', (hostile, shown) => {
  expect(visible(hostile)).toBe(shown)
})

test('lines stay lines', () => {
  expect(visibleLines('Error: no\r\n    at a\n\u001b[2J')).toBe('Error: no\n    at a\n\\u{1b}[2J')
})

test('every text in a value is shown, and nothing else is changed', () => {
  const value = { 'a\r\n\u001b': ['\u001b', 1, null, true, undefined, [], { b: 'c\r\nd\te' }] }
  expect(visibleDeep(value)).toStrictEqual({
    'a\n\\u{1b}': ['\\u{1b}', 1, null, true, undefined, [], { b: 'c\nd\\te' }],
  })
})

describe('JSON', () => {
  // DEL, a separator that counts as white space, a byte order mark, and a tag of two units.
  test('has the escapes of JSON, and lines', () => {
    expect(toJson({ a: '\u007f\u2028\ufeff\u{e0041}' }, 1)).toBe(
      String.raw`{LF "a": "\u007f\u2028\ufeff\udb40\udc41"LF}`.replaceAll('LF', '\n'),
    )
  })

  test('is read back as the same value, and no character of it is obeyed', () => {
    fc.assert(
      fc.property(fc.dictionary(text, text), (value) => {
        const json = toJson(value)
        expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(json).not.toMatch(OBEYED)
      }),
    )
  })
})

test('text is cut at characters, and says so', () => {
  expect(cut('🎉🎉🎉', 2)).toBe('🎉…')
  expect(cut('ab', 2)).toBe('ab')
  fc.assert(
    fc.property(
      text,
      fc.nat({ max: 20 }),
      (any, most) => [...cut(any, most)].length <= Math.max(1, most),
    ),
  )
})
