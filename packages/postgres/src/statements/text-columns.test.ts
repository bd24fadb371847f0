import { describe, expect, it, vi } from 'vitest'
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

  it('is made of a part of a long key', () => {
    const looked = watchedTexts(() => escapeLooseKey('é'.repeat(1_000_000)))
    expect(Math.max(...looked)).toBeLessThan(10_000)
  })
})

/** The lengths of all texts that something looks through or copies during the call. */
function watchedTexts(call: () => unknown): readonly number[] {
  const lengths: number[] = []
  const spies = [
    ...(['includes', 'replaceAll', 'replace', 'toWellFormed'] as const).map((method) => {
      const own = String.prototype[method] as (...given: unknown[]) => unknown
      return vi.spyOn(String.prototype, method).mockImplementation(function (
        this: string,
        ...given: unknown[]
      ) {
        lengths.push(this.length)
        return own.apply(this, given) as never
      })
    }),
    ...(['from', 'byteLength'] as const).map((method) => {
      const own = Buffer[method] as (...given: unknown[]) => unknown
      return vi.spyOn(Buffer, method).mockImplementation((...given: unknown[]) => {
        lengths.push((given[0] as string).length)
        return own.apply(Buffer, given) as never
      })
    }),
  ]
  try {
    call()
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
  return lengths
}

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

  // Red when a text is copied whole before it is cut: 50 MB of NULs took 7 seconds at each failed run.
  it.each<[string, (text: string) => unknown]>([
    ['the message of an error', (text) => new Error(text)],
    ['the name of an error', (text) => Object.assign(new Error('no'), { name: text })],
    ['the stack of an error', (text) => Object.assign(new Error('no'), { stack: text })],
    ['the message of a cause', (text) => new Error('no', { cause: new Error(text) })],
    ['a thrown text', (text) => text],
  ])('is cut before anything looks through it: %s', (_what, thrownWith) => {
    for (const unit of ['x', '\0', '\ud800', 'é']) {
      const thrown = thrownWith(unit.repeat(1_000_000))
      const looked = watchedTexts(() => toErrorText(thrown))
      expect(Math.max(...looked)).toBeGreaterThan(0)
      expect(Math.max(...looked)).toBeLessThan(20 * MAX_ERROR_BYTES)
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
    for (const thrown of ['text', 7, null, Symbol('s'), {}, circle, 1n]) {
      expect(toErrorText(thrown)).toEqual(expect.any(String))
    }
    expect(toErrorText(undefined)).toBeUndefined()
  })
})
