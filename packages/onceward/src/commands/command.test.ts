import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { instantMs, notEmpty, wholeNumber } from './command.ts'

const refused = expect.objectContaining({ exitCode: 2 })
const taken = (call: () => unknown): boolean => {
  try {
    call()
    return true
  } catch (error) {
    expect(error).toEqual(refused)
    return false
  }
}
const two = (number: number): string => String(number).padStart(2, '0')

describe('a time', () => {
  test.each([
    ['2026-11-22', '2026-11-22T00:00:00.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'],
    ['2026-11-22T20:00Z', '2026-11-22T20:00:00.000Z'],
    ['2026-11-22T20:00:00.123456Z', '2026-11-22T20:00:00.123Z'],
    ['2026-11-22T20:00:00+0200', '2026-11-22T18:00:00.000Z'],
    ['2026-11-22t20:00:00-05:30', '2026-11-23T01:30:00.000Z'],
    // As psql shows it.
    ['2026-11-22 20:00:00.5+02', '2026-11-22T18:00:00.500Z'],
  ])('%s is taken', (text, iso) => {
    expect(new Date(instantMs('--since', text)).toISOString()).toBe(iso)
  })

  test.each([
    ...['', ' ', 'now', 'soon', '2026', '2026-11', '22.11.2026', '2026-11-22 (x)', '2026-11-22T'],
    ...['2026-02-30', '2025-02-29', '2026-13-01', '2026-00-10', '2026-11-00', '2026-11-31T10:00Z'],
    ...['2026-11-22T25:00Z', '2026-11-22T20:60Z', '2026-11-22T20:00+24:00', '0000-01-01'],
    ...['-2h', '2 hours', '1e3s', '0x10s', `${'9'.repeat(400)}d`, 'Infinityd', '99999999999d'],
  ])('%j is refused', (text) => {
    expect(() => instantMs('--since', text)).toThrow(refused)
  })

  test('of any numbers is taken only if there is such a time, and is that time', () => {
    const number = (max: number) => fc.integer({ min: 0, max })
    const parts = fc.tuple(
      fc.integer({ min: 1, max: 9999 }),
      number(13),
      fc.constantFrom(0, 1, 28, 29, 30, 31, 32),
      number(25),
    )
    fc.assert(
      fc.property(parts, number(61), ([year, month, day, hour], minute) => {
        const date = `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`
        const text = `${date}T${two(hour)}:${two(minute)}:00Z`
        if (!taken(() => instantMs('--since', text))) {
          const next = new Date(text)
          // What JavaScript cannot read either, or what it would read as another day.
          expect(Number.isNaN(next.getTime()) || !next.toISOString().startsWith(date)).toBe(true)
          return
        }
        const isMidnight = hour === 24
        const said = new Date(instantMs('--since', text) - (isMidnight ? 86_400_000 : 0))
        expect(said.toISOString()).toBe(
          `${date}T${two(isMidnight ? 0 : hour)}:${two(minute)}:00.000Z`,
        )
      }),
    )
  })

  test('of any other text is refused or a time', () => {
    const characters = fc.string({ unit: fc.constantFrom(...'0123456789-:T Z+.hdms(') })
    fc.assert(
      fc.property(fc.oneof(fc.string(), characters), (text) => {
        if (taken(() => instantMs('--since', text)))
          expect(text).toMatch(/^\d{4}-|^\d+(\.\d+)?\s*[a-z]/)
      }),
    )
  })
})

test('a whole number is digits alone, from the least up, and exact', () => {
  const digits = fc.string({ unit: fc.constantFrom(...'0123456789eE+-. _nx') })
  fc.assert(
    fc.property(fc.oneof(digits, fc.string(), fc.maxSafeNat().map(String)), (text) => {
      const isWhole = /^\d+$/.test(text) && BigInt(text) <= Number.MAX_SAFE_INTEGER
      expect(taken(() => wholeNumber('--limit', text))).toBe(isWhole)
      if (isWhole) expect(wholeNumber('--limit', text)).toBe(Number(text))
      expect(taken(() => wholeNumber('--limit', text, 10))).toBe(isWhole && Number(text) >= 10)
    }),
  )
})

test('a text that must say something is not blank', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(' ', '\t', '\n') })),
      (text) => {
        expect(taken(() => notEmpty('--by', text))).toBe(/\S/.test(text))
      },
    ),
  )
  expect(notEmpty('--by', undefined)).toBeUndefined()
})
