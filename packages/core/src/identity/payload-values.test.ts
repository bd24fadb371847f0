import { expect, test } from 'vitest'
import { withoutValuesOf } from './payload-values.ts'

test.each<[string, unknown, string, string]>([
  ['a text', { a: { b: ['secret'] } }, 'got "secret"', 'got "…"'],
  ['the payload itself', 'secret', 'got secret', 'got …'],
  ['a number', [12_345], 'got 12345, 12345', 'got …, …'],
  ['a BigInt', { a: 12_345n }, 'got 12345', 'got …'],
  ['a text as JSON writes it', { a: 'line\nbreak' }, String.raw`got "line\nbreak"`, 'got "…"'],
  ['a text with a part of another', ['1234', '12345678'], 'got 12345678', 'got …'],
  ['a text with a part of a later one', ['12345678', '1234'], 'got 12345678', 'got …'],
  ['a text of four characters', ['four'], 'four is not five', '… is not five'],
])('%s is replaced', (_name, payload, text, clean) => {
  expect(withoutValuesOf(payload, text)).toBe(clean)
})

test.each<[string, unknown]>([
  ['short', ['got', 12]],
  ['no text', [true, null, undefined, Symbol('got')]],
  ['names', { expected: 1 }],
])('values that are %s are left where they are', (_name, payload) => {
  expect(withoutValuesOf(payload, 'expected true, got null or undefined')).toBe(
    'expected true, got null or undefined',
  )
})

test('a long payload is looked through up to 2,000 values, and a circle ends', () => {
  const values = (count: number) => Array.from({ length: count }, (_, at) => `value-${at}-`)
  expect(withoutValuesOf(values(1_999), 'got value-0- and value-1998-')).toBe('got … and …')
  expect(withoutValuesOf(values(9_999), 'got value-0-')).toBe('got value-0-')
  expect(withoutValuesOf(values(9_999), 'got value-9998-')).toBe('got value-9998-')
  const circle: unknown[] = ['secret']
  circle.unshift(circle)
  expect(withoutValuesOf(circle, 'got secret')).toBe('got …')
})
