import fc from 'fast-check'
import { expect, test } from 'vitest'
import { holdsRounded } from './decode.ts'

/** The number as digits and a power of ten, by arithmetic without bounds: slow and plainly right. */
function exactly(literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().replace(/^-/, '').split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  let digits = BigInt(whole + fraction)
  let power = BigInt(exponent) - BigInt(fraction.length)
  if (digits === 0n) return '0'
  for (; digits % 10n === 0n; digits /= 10n) power += 1n
  return `${digits}e${power}`
}

function isHeld(literal: string): boolean {
  const value = Number(literal)
  return Number.isFinite(value) && exactly(literal) === exactly(String(value))
}

const digits = (maxLength: number) =>
  fc.string({ unit: fc.constantFrom(...'00011234567899'), minLength: 1, maxLength })

/** Any number as JSON spells it; many near the ends of what a double holds. */
const literal = fc
  .record({
    sign: fc.constantFrom('', '-'),
    whole: digits(25).map((text) => text.replace(/^0+(?=.)/, '')),
    fraction: fc.option(digits(25), { nil: '' }),
    e: fc.constantFrom('e', 'E', 'e+', 'e-', 'E-'),
    exponent: fc.option(fc.nat(400), { nil: undefined }),
  })
  .map(({ sign, whole, fraction, e, exponent }) => {
    const point = fraction === '' ? '' : `.${fraction}`
    return `${sign}${whole}${point}${exponent === undefined ? '' : e + exponent}`
  })
const double = fc.double({ noNaN: true, noDefaultInfinity: true }).map(String)

test('a number is rounded exactly when arithmetic without bounds says so', () => {
  fc.assert(
    fc.property(fc.oneof(literal, double), (text) => {
      expect(holdsRounded(text)).toBe(!isHeld(text))
    }),
    { numRuns: 2_000 },
  )
})

test.each([
  ['[1,2,300]', false],
  ['{"id":"a1e5","other":"b1234567890123456789"}', false],
  ['[{"a":["1",12345678901234567890]}]', true],
  ['{"12345678901234567890":1e5}', false],
  [`1e${'9'.repeat(400)}`, true],
])('%s holds a rounded number: %s', (text, isRounded) => {
  expect(holdsRounded(text)).toBe(isRounded)
})

test('a text that nests deeper than the stack counts as rounded', () => {
  expect(holdsRounded(`${'['.repeat(100_000)}1e1${']'.repeat(100_000)}`)).toBe(true)
})

// Red when an expression looks for the end of the zeros: a message of 400 kB would take minutes.
test('a number of many zeros between ones is read in linear time', () => {
  expect(holdsRounded(`1${'0'.repeat(400_000)}1`)).toBe(true)
  expect(holdsRounded(`0.${'0'.repeat(400_000)}1`)).toBe(true)
})
