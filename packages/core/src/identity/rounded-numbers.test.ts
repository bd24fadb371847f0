import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { mayHoldRounded, RoundedNumbers } from './rounded-numbers.ts'

function holdsRounded(text: string): boolean {
  if (!mayHoldRounded(text)) return false
  const numbers = new RoundedNumbers(text)
  for (let part = 0; part < text.length; part += 1) {
    const answer = numbers.next()
    if (answer !== undefined) return answer
  }
  throw new Error('Each part has a character at least, so the text has been read.')
}

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
    exponent: fc.option(
      fc.oneof(
        fc.integer({ min: 0, max: 400 }),
        fc.constantFrom(290, 291, 307, 308, 309, 323, 324, 325),
      ),
      { nil: undefined },
    ),
  })
  .map(({ sign, whole, fraction, e, exponent }) => {
    const point = fraction === '' ? '' : `.${fraction}`
    return `${sign}${whole}${point}${exponent === undefined ? '' : e + exponent}`
  })

/** Any unit of UTF-16. Those that end or bend a text of JSON, and those of a number, are frequent. */
const character = fc.oneof(
  fc.constantFrom(...'"\\,[1e9'),
  fc.nat(0xffff).map((code) => String.fromCharCode(code)),
)

const double = fc.double({ noNaN: true, noDefaultInfinity: true }).map(String)

describe('a number is found to be rounded', () => {
  test('exactly when arithmetic without bounds says so', () => {
    fc.assert(
      fc.property(fc.oneof(literal, double), (text) => {
        expect(holdsRounded(text)).toBe(!isHeld(text))
      }),
      { numRuns: 5_000 },
    )
  })

  test.each(['1', '-1', '0', '0.1', '10', '1.5', '12345678901234567'])(
    'far outside of what a double holds: %s with an exponent of many digits',
    (mantissa) => {
      for (const exponent of ['999', '-999', '9'.repeat(400), `-${'9'.repeat(400)}`]) {
        const text = `${mantissa}e${exponent}`
        expect(holdsRounded(text), text).toBe(mantissa !== '0')
      }
    },
  )

  test('wherever it stands, and not in a text', () => {
    const value = fc.oneof(
      literal,
      fc.string({ unit: character }).map((text) => JSON.stringify(text)),
      literal.map((text) => JSON.stringify(`"\\${text}`)),
      fc.constantFrom('true', 'false', 'null', '{}', '[ ]'),
    )
    const document = fc.array(fc.tuple(value, value), { maxLength: 10 })
    fc.assert(
      fc.property(document, (pairs) => {
        const text = `[ ${pairs.map(([one, two]) => `{"9007199254740993\\\\":${one}},\n${two}`).join(' ,')}]`
        const numbers = pairs.flat().filter((each) => /^[-0-9]/.test(each))
        expect(JSON.parse(text)).toBeDefined()
        expect(holdsRounded(text)).toBe(numbers.some((each) => !isHeld(each)))
      }),
      { numRuns: 200 },
    )
  })

  test('also where the text is read in parts', () => {
    const before = `["${'\\"'.repeat(200_000)}",1e1,`
    expect(holdsRounded(`${before}9007199254740993]`)).toBe(true)
    expect(holdsRounded(`${before}9007199254740992]`)).toBe(false)
  })
})

test.each([
  ['[1,2,300]', false],
  ['{"id":"a1e5","other":"b1234567890123456789"}', false],
  ['[ 12345678901234567890]', true],
  ['[1e5]', true],
])('%s is read number by number: %s', (text, isRead) => {
  expect(mayHoldRounded(text)).toBe(isRead)
})

test('a long text is read in parts, so that it does not hold up other messages', () => {
  const numbers = new RoundedNumbers(`[${'1,'.repeat(100_000)}1]`)
  let parts = 1
  while (parts < 10 && numbers.next() === undefined) parts += 1
  expect(parts).toBe(4)
})
