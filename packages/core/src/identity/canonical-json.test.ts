import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { NASTY_JSON } from '../fixtures/nasty-json.ts'
import { CanonicalJson } from './canonical-json.ts'

function piecesOf(value: unknown): string[] {
  const json = new CanonicalJson(value)
  const pieces: string[] = []
  while (!json.isOver) pieces.push(json.next() ?? 'nothing more')
  expect(json.next()).toBeUndefined()
  return pieces
}

function textOf(value: unknown): string | undefined {
  const pieces = piecesOf(value)
  return pieces.length === 0 ? undefined : pieces.join('')
}

/** The text, or that there is none: which error says so does not matter. */
function attempt(write: (value: unknown) => string | undefined, value: unknown): unknown {
  try {
    return write(value)
  } catch {
    return 'no text'
  }
}

/** Everything a user's function may return: dates, boxed values, holes, sharing, lone surrogates. */
const anything = fc.anything({
  withDate: true,
  withBoxedValues: true,
  withNullPrototype: true,
  withSparseArray: true,
  withBigInt: true,
  withMap: true,
  stringUnit: 'binary',
})

describe('the canonical text', () => {
  test('is that of the reference implementation, for JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary', maxDepth: 6 }), (value) => {
        expect(attempt(textOf, value)).toBe(attempt(canonicalize, value))
      }),
      { numRuns: 500 },
    )
  })

  test('is that of the reference implementation, for any value', () => {
    fc.assert(
      fc.property(anything, (value) => {
        expect(attempt(textOf, value)).toBe(attempt(canonicalize, value))
      }),
      { numRuns: 1_000 },
    )
  })

  test.each(Object.entries(NASTY_JSON))(
    'is that of the reference implementation, for %s',
    (_name, nasty) => {
      const value: unknown = JSON.parse(nasty(50_000))
      expect(attempt(textOf, value)).toBe(attempt(canonicalize, value))
    },
  )

  const leaf = { a: 1 }
  class Money {
    readonly #cents = 5
    toJSON(): unknown {
      return { cents: this.#cents, none: undefined }
    }
  }
  test.each([
    ['a shared object', [leaf, leaf, { leaf, again: [leaf] }]],
    ['neighbours that are one object', { list: [leaf, leaf] }],
    ['an object with toJSON', { money: new Money(), list: [new Money()] }],
    ['toJSON of undefined', { a: { toJSON: () => undefined }, b: [{ toJSON: () => undefined }] }],
    ['toJSON that is no function', { toJSON: 'text', list: [{ toJSON: 1 }, { toJSON: null }] }],
    ['toJSON of something with toJSON', { toJSON: () => new Date(0) }],
    [
      'undefined, functions and symbols',
      [undefined, () => 1, Symbol('s'), { u: undefined, f: () => 1 }],
    ],
    ['nothing', undefined],
    ['a function', () => 1],
    ['an invalid date', new Date(Number.NaN)],
    [
      'keys in the order of UTF-16',
      { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\u{1f600}': 5, '\u0080': 6, '10': 7, '9': 8 },
    ],
    ['a key that is a lone surrogate', { '\ud800': 1 }],
    ['minus zero', [-0, 1e21, 1e-7]],
  ])('is that of the reference implementation, for %s', (_name, value) => {
    expect(attempt(textOf, value)).toBe(attempt(canonicalize, value))
  })
})

describe('one piece is small', () => {
  test.each([
    ['many numbers', Array.from({ length: 50_000 }, (_, index) => index)],
    ['many texts', Array.from({ length: 200 }, () => 'x'.repeat(1_000))],
  ])('of %s', (_name, value) => {
    const pieces = piecesOf(value)
    expect(pieces.length).toBeGreaterThan(2)
    for (const { length } of pieces) expect(length).toBeLessThan(40_000)
  })

  test('of an object whose members are left out: empty pieces, so that the event loop gets its turn', () => {
    const names = Array.from({ length: 50_000 }, (_, index) => `name${index}`)
    const pieces = piecesOf(Object.fromEntries(names.map((name) => [name, undefined])))
    expect(pieces.length).toBeGreaterThan(10)
    expect(pieces.join('')).toBe('{}')
  })
})

describe('what contains itself has no text', () => {
  const circle: Record<string, unknown> = { before: [1, { a: {} }] }
  circle['inner'] = { list: [0, { circle }] }
  const long: unknown[] = []
  let end = long
  for (let depth = 0; depth < 1_000; depth++) {
    const next: unknown[] = [{}]
    end.push(next)
    end = next
  }
  end.push(long)
  const list: unknown[] = [{}]
  list.push(list)
  const self: { toJSON?: () => unknown } = {}
  self.toJSON = () => self
  const wrapper: { toJSON?: () => unknown } = {}
  wrapper.toJSON = () => ({ wrapper })
  const behind = {
    get again(): unknown {
      return { toJSON: () => behind }
    },
  }
  test.each([
    ['an object', circle],
    ['an object behind a new wrapper each time', behind],
    ['a list, after an empty object', list],
    ['a long circle', long],
    ['a circle below the root', { a: { b: [circle] } }],
    ['toJSON of the object itself', self],
    ['toJSON of an object around it', wrapper],
  ])('%s', (_name, value) => {
    expect(() => textOf(value)).toThrow(TypeError)
  })
})
