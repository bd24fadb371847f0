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
