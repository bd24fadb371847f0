import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseIdempotencyKey } from './idempotency-key.ts'

const visible = fc.string({
  unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 255,
})
const printable = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 255,
})
const quote = (text: string): string => `"${text.replace(/[\\"]/g, '\\$&')}"`

describe('an idempotency key', () => {
  test('is any text of 1 to 255 visible characters that begins without a quote', () => {
    fc.assert(
      fc.property(
        visible.filter((text) => !text.startsWith('"')),
        (key) => {
          expect(parseIdempotencyKey([key])).toEqual({ kind: 'key', key })
        },
      ),
    )
  })

  test('is any printable text as an sf-string, and the quotes are no part of it', () => {
    fc.assert(
      fc.property(printable, (key) => {
        expect(parseIdempotencyKey([quote(key)])).toEqual({ kind: 'key', key })
      }),
    )
  })

  test.each([
    ['of 256 characters', 'k'.repeat(256)],
    ['of 256 characters in quotes', quote('k'.repeat(256))],
    ['that is an empty sf-string', '""'],
    ['with a space outside of quotes', 'a b'],
    ['of two headers that were joined', 'a, b'],
    ['of two sf-strings that were joined', '"a", "b"'],
    ['with a quote that is not closed', '"a'],
    ['that ends in an escape', '"a\\"'],
    ['with an escape that RFC 8941 does not have', '"a\\n"'],
    ['with parameters', '"a";v=1'],
    ['with a letter that is not ASCII', 'schlüssel'],
    ['with a control character', 'a\u0007b'],
    ['with a tab in quotes', '"a\tb"'],
  ])('%s is malformed', (_what, value) => {
    expect(parseIdempotencyKey([value])).toEqual({ kind: 'malformed' })
  })

  test('has 255 characters at most, without the white space around it', () => {
    const key = 'k'.repeat(255)
    expect(parseIdempotencyKey([` \t ${key}\t \t`])).toEqual({ kind: 'key', key })
  })

  test('is missing when there is no header or an empty one', () => {
    for (const values of [[], [''], [' \t']]) {
      expect(parseIdempotencyKey(values)).toEqual({ kind: 'missing' })
    }
  })

  test('is refused when the header comes twice, also with equal values', () => {
    expect(parseIdempotencyKey(['a', 'a'])).toEqual({ kind: 'repeated' })
  })

  test('is read within linear time', () => {
    /** Processor time of this process, µs: waiting for a busy machine is not work. */
    const workFor = (pairs: number): number => {
      const hostile = `"${'\\\\'.repeat(pairs)}`
      const before = process.cpuUsage()
      expect(parseIdempotencyKey([hostile])).toEqual({ kind: 'malformed' })
      const { system, user } = process.cpuUsage(before)
      return Math.max(1, system + user)
    }
    workFor(5_000)
    // Forty times the text: 1,600 times the work if every place is read from every other.
    const ratios = [0, 1, 2].map(() => workFor(200_000) / workFor(5_000))
    expect(Math.min(...ratios)).toBeLessThan(400)
  })
})
