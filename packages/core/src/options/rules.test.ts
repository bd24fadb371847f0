import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import * as rules from './rules.ts'

const withMethod = Object.assign(() => undefined, { open: () => undefined })

describe('a rule accepts its values and no others', () => {
  const { aFunction, consumerName, either, integer, objectWith, oneOf, resolvers } = rules
  const schema = { '~standard': { validate: () => undefined } }
  test.each<[string, rules.Rule, readonly unknown[], readonly unknown[]]>([
    ['an integer', integer(2, 4, ''), [2, 3, 4], [1, 5, 2.5, '3', NaN, null, 3n]],
    ['a name', oneOf('a', 'b'), ['a', 'b'], ['c', ['a'], 0, null]],
    ['one of two', either(aFunction, oneOf('a')), [aFunction.accepts, 'a'], ['b', {}]],
    [
      ...(['an object with a method', objectWith('a store', 'open')] as const),
      [{ open: () => undefined }, withMethod],
      [null, {}, { open: 1 }, 'text', 7, () => undefined],
    ],
    [
      ...(['a resolver', resolvers] as const),
      [() => 'a', [() => 'a', () => 'b']],
      [[], ['a'], [() => 'a', 'b'], 'a', {}],
    ],
    [
      ...(['a schema', rules.standardSchema] as const),
      [schema, Object.assign(() => undefined, schema)],
      [null, {}, { '~standard': null }, { '~standard': { validate: 1 } }, 'a', 7, () => undefined],
    ],
    [
      ...(['a consumer', consumerName] as const),
      ['a', 'A-Z_0.9:', 'a'.repeat(128)],
      ['', 'a'.repeat(129), 'a b', 'ü', 'a\n', 7, ['a']],
    ],
  ])('%s', (_what, { accepts }, good, bad) => {
    for (const value of good) expect(accepts(value), inspect(value)).toBe(true)
    for (const value of bad) expect(accepts(value), inspect(value)).toBe(false)
  })
})

describe('a broken rule', () => {
  const brokenBy = (value: unknown): readonly string[] =>
    rules.brokenRules(
      'createGuard',
      { limit: { expected: 'good', accepts: () => false } },
      {
        limit: value,
      },
    )

  test.each<[unknown, string]>([
    [30, '`30` (number)'],
    [null, '`null` (null)'],
    [true, '`true` (boolean)'],
    [{ password: 'secret' }, '`{…}` (object)'],
    [['secret', 'b'], '`[2 values]` (array)'],
    [() => 'secret', '`function` (function)'],
  ])('shows what was given, and no secret: %#', (value, shown) => {
    expect(brokenBy(value)).toEqual([`Expected \`limit\` to be good, got ${shown}.`])
  })

  test('is no option that is not given, unless it is required', () => {
    expect(brokenBy(undefined)).toEqual([])
    expect(rules.brokenRules('createGuard', { consumer: rules.consumerName }, {})).toEqual([
      expect.stringMatching(/^Expected `consumer` to be 1–128 .*, got nothing\. It is the name/),
    ])
  })

  test('is an unknown name with a value', () => {
    const options = { limit: undefined, limt: 1, other: undefined }
    expect(rules.brokenRules('createGuard', { limit: rules.aFunction }, options)).toEqual([
      expect.stringContaining('does not know "limt", did you mean "limit"'),
    ])
  })

  test.each([null, 5, [1], 'text'])('is a `retry` that is %j', (retry) => {
    expect(rules.brokenRules('createGuard', {}, { retry })).toEqual([
      'Expected `retry` to be an object with `attempts`, `baseMs` and `maxMs`.',
    ])
  })
})
