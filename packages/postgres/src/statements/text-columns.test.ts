import { describe, expect, it } from 'vitest'
import {
  escapeLooseKey,
  escapeText,
  MAX_ERROR_BYTES,
  toErrorText,
  unescapeText,
} from './text-columns.ts'

const NASTY = [
  'order-1',
  'a\0b',
  '\\u0000',
  '"',
  '\ud800',
  'x\udfff',
  'é\u{1f600}',
  '\n\t\u2028',
  '',
]

describe('escaped text', () => {
  it.each(NASTY)('can be turned back into the original: %j', (text) => {
    const escaped = escapeText(text)
    expect(escaped).not.toContain('\0')
    expect(escaped.isWellFormed()).toBe(true)
    expect(unescapeText(escaped)).toBe(text)
  })

  it('is the same as the original for ordinary keys', () => {
    expect(escapeText('orders/2026-01-02#7 é')).toBe('orders/2026-01-02#7 é')
  })

  it('has a limited length, even for a key of any length', () => {
    const escaped = escapeLooseKey('é'.repeat(100_000))
    expect(Buffer.byteLength(escaped)).toBeLessThanOrEqual(4_096)
    expect(escaped).toMatch(/^é+$/)
  })
})

describe('the text of an error', () => {
  it('contains name, message and causes', () => {
    const error = new TypeError('no such account', { cause: new Error('timeout') })
    expect(toErrorText(error)).toMatch(/^TypeError: no such account\n.*caused by: Error: timeout/s)
  })

  it('names an error also where its stack does not', () => {
    const renamed = new TypeError('no such account')
    // The engine writes the stack when it is first read.
    expect(renamed.stack).toContain('no such account')
    renamed.message = 'account 7 is closed'
    expect(toErrorText(renamed)).toBe('TypeError: account 7 is closed')
    const bare = new RangeError('too far')
    delete bare.stack
    expect(toErrorText(bare)).toBe('RangeError: too far')
  })

  it('contains five causes at most, and none where there is none', () => {
    const circle = new Error('round')
    circle.cause = circle
    const causes = (error: Error): number => toErrorText(error)?.match(/caused by:/g)?.length ?? 0
    expect(causes(circle)).toBe(5)
    expect(causes(new Error('alone'))).toBe(0)
    expect(causes(new Error('one', { cause: null }))).toBe(1)
  })

  it.each([
    ['text', 'text'],
    [7, '7'],
    [null, 'null'],
    [{}, '[object Object]'],
  ])('is what was thrown, where that is no error: %j', (thrown, text) => {
    expect(toErrorText(thrown)).toBe(text)
  })

  it('is whole up to its maximum size, and never ends within a character', () => {
    expect(toErrorText('x'.repeat(MAX_ERROR_BYTES))).toBe('x'.repeat(MAX_ERROR_BYTES))
    expect(toErrorText('x'.repeat(MAX_ERROR_BYTES + 1))).toBe('x'.repeat(MAX_ERROR_BYTES))
    for (const letter of ['é', '€', '\u{1f600}']) {
      for (const before of ['', 'x', 'xx', 'xxx']) {
        const text = toErrorText(before + letter.repeat(MAX_ERROR_BYTES)) ?? ''
        expect(text.slice(before.length).replaceAll(letter, '')).toBe('')
        expect(Buffer.byteLength(text)).toBeGreaterThan(MAX_ERROR_BYTES - 4)
      }
    }
  })

  it('keeps the replacement characters of its own', () => {
    for (const text of ['a\ufffd', `${'x'.repeat(MAX_ERROR_BYTES - 3)}\ufffd`]) {
      expect(toErrorText(text)).toBe(text)
    }
    expect(toErrorText(`\ufffd${'é'.repeat(MAX_ERROR_BYTES)}`)).toBe(`\ufffd${'é'.repeat(4_094)}`)
  })

  it('contains no NUL and no lone surrogate, and has a limited length', () => {
    const text = toErrorText(new Error(`\0 \ud800 ${'é'.repeat(50_000)}`)) ?? ''
    expect(text).not.toContain('\0')
    expect(text.isWellFormed()).toBe(true)
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_ERROR_BYTES)
  })

  it('exists for any thrown value', () => {
    const circle = new Error('round')
    circle.cause = circle
    const hostile = {
      toString() {
        throw new Error('no')
      },
    }
    const revoked = Proxy.revocable({}, {})
    revoked.revoke()
    for (const thrown of ['text', 7, null, Symbol('s'), {}, hostile, revoked.proxy, circle, 1n]) {
      expect(toErrorText(thrown)).toEqual(expect.any(String))
    }
    expect(toErrorText(undefined)).toBeUndefined()
  })
})
