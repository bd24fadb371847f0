import { describe, expect, test } from 'vitest'
import { FatalError, RetryableError } from '../model/errors.ts'
import type { ResolvedOptions } from '../options/resolved-options.ts'
import { assertStorable, RESULT_LIMIT_BYTES, storableResult } from './handler-result.ts'

const reported: unknown[] = []
const options = {
  consumer: 'billing',
  reportOnce: (...line) => void reported.push(line),
} as Partial<ResolvedOptions> as ResolvedOptions

const kept = (value: unknown, read: { isResultRead?: true } = {}, over = {}) =>
  storableResult({ ...options, ...over }, read, value)

describe('a return value', () => {
  const shared = { cents: 5 }
  const endless: Record<string, unknown> = { list: [] }
  endless['list'] = [endless]
  // With its two quotation marks.
  const longest = 'x'.repeat(RESULT_LIMIT_BYTES - 2)
  const nested = (levels: number): unknown =>
    JSON.parse(`${'['.repeat(levels - 1)}{}${']'.repeat(levels - 1)}`)

  test.each<[unknown, string]>([
    [null, 'null'],
    [{ lines: [1, 'two', false, null, [3]] }, '{"lines":[1,"two",false,null,[3]]}'],
    [{ kept: 1, left: undefined }, '{"kept":1}'],
    [Object.assign(Object.create(null), { cents: 5 }), '{"cents":5}'],
    [{ id: 1234567890123456781n }, '{"id":1234567890123456781}'],
    [[shared, shared], '[{"cents":5},{"cents":5}]'],
    [longest, JSON.stringify(longest)],
    [nested(1_000), JSON.stringify(nested(1_000))],
  ])('of plain JSON is stored (%#)', (value, text) => {
    expect(kept(value)).toEqual({ value, text })
    expect(() => assertStorable(value)).not.toThrow()
  })

  test('of nothing is allowed without a transaction', () => {
    expect(() => assertStorable(undefined)).not.toThrow()
  })

  test.each<[unknown, string]>([
    [{ rows: [1, () => 1] }, 'has a function at $.rows[1]'],
    [[Symbol('a')], 'has a symbol at $[0]'],
    [{ at: new Date(0) }, 'has an object that is not plain at $.at'],
    [[[Number.NaN]], 'has a number that JSON cannot store at $[0][0]'],
    [endless, 'refers to itself at $.list[0]'],
    [[undefined], 'has a undefined at $[0]'],
    [`${longest}x`, `is ${RESULT_LIMIT_BYTES + 1} bytes of JSON`],
    // Red when the RangeError of the engine comes out.
    [nested(1_001), 'nests deeper than 1000 levels'],
    [nested(20_000), 'nests deeper than 1000 levels'],
  ])('that is not plain JSON of the size allowed is named (%#)', (value, why) => {
    expect(() => kept(value, { isResultRead: true })).toThrow(RetryableError)
    expect(() => kept(value, { isResultRead: true })).toThrow(why)
    // Without a transaction the effect has happened, so the event must not run again.
    // Red before: the dead letter said that nothing was committed, where the effect had happened.
    expect(() => assertStorable(value)).toThrow(
      expect.objectContaining({
        constructor: FatalError,
        message: expect.stringMatching(/and its effects may have happened\. Return plain JSON/),
      }),
    )
    expect(() => assertStorable(value)).toThrow(why)
  })

  // Red before: each event of a handler in the short form was dead after ten attempts.
  test('that is not plain JSON is ignored with a warning if nobody reads it', () => {
    const driver = new (class Result {
      rowCount = 1
    })()
    expect(kept(driver)).toBeUndefined()
    expect(reported.splice(0)).toEqual([
      [
        'warn',
        { consumer: 'billing', why: 'has an object that is not plain at $' },
        expect.stringMatching(/^the handler returned a value that is not plain JSON/),
      ],
    ])
    expect(() => kept(driver, {}, { afterCommit: () => undefined })).toThrow(RetryableError)
    expect(() => kept(driver, {}, { callerRetries: {} })).toThrow(RetryableError)
  })

  test.each([
    ['too large a one', `${longest}x`, /bytes of JSON/],
    ['a query that was not executed', { execute: () => undefined }, /not/],
    ['a generator', (function* () {})(), /not/],
  ])('of %s fails the attempt whoever reads it', (_, value, why) => {
    expect(() => kept(value)).toThrow(why)
    expect(() => kept(value)).toThrow(RetryableError)
  })
})
