import { describe, expect, test } from 'vitest'
import type { GuardSettings } from '../model/guard-port.ts'
import {
  quoted,
  RUN_DEFAULTS,
  rangeProblems,
  resolveRunOptions,
  runOptionProblems,
  typeProblems,
  withoutUndefined,
} from './run-options.ts'

const guardOf = (transaction: 'each' | 'batch') => ({ transaction }) as GuardSettings

describe('messages are gathered', () => {
  test.each<[string, object, 'each' | 'batch', object]>([
    ['at once for a transaction each', {}, 'each', { lingerMs: 0 }],
    ['for a while for a shared one', {}, 'batch', { lingerMs: RUN_DEFAULTS.lingerMs }],
    ['as the user says', { lingerMs: 7, size: 3 }, 'each', { lingerMs: 7, batchSize: 3 }],
    ['not at all if the user says so', { lingerMs: 0 }, 'batch', { lingerMs: 0 }],
  ])('%s', (_what, batch, transaction, expected) => {
    expect(resolveRunOptions({ batch, drainMs: 5 }, guardOf(transaction))).toEqual({
      ...{ batchSize: RUN_DEFAULTS.batchSize, drainMs: 5, ...expected },
    })
  })

  test('with the defaults where nothing is said', () => {
    const { batchSize, drainMs } = RUN_DEFAULTS
    expect(resolveRunOptions({}, guardOf('each'))).toEqual({
      ...{ batchSize, drainMs, lingerMs: 0 },
    })
  })
})

describe('an option is refused', () => {
  const signal = { aborted: false, addEventListener: () => undefined }
  test.each<[string, object, RegExp | undefined]>([
    ['a signal', { signal: new AbortController().signal }, undefined],
    ['a signal of another realm', { signal }, undefined],
    [
      'a controller',
      { signal: new AbortController() },
      /`signal` to be an AbortSignal.*controller/,
    ],
    ['a signal without listeners', { signal: { aborted: false } }, /`signal` to be an AbortSignal/],
    ['what only listens', { signal: { ...signal, aborted: 1 } }, /`signal` to be an AbortSignal/],
    ['a function', { signal: Object.assign(() => undefined, signal) }, /`signal` to be/],
    [
      'a size for a batch',
      { batch: 5 },
      /`batch` to be an object with `size` and `lingerMs`, got `5`/,
    ],
    ['a list for a batch', { batch: [5] }, /`batch` to be an object/],
    [
      'an empty batch',
      { batch: { size: 0 } },
      /`batch.size` to be an integer from 1 to 100, got `0`.*messages/,
    ],
    [
      'a long wait',
      { batch: { lingerMs: 60_001 } },
      /`batch.lingerMs` .* 0 to 60000.*milliseconds/,
    ],
    ['a long drain', { drainMs: 43_200_001 }, /`drainMs` .* 0 to 43200000/],
    ['the longest drain', { drainMs: 43_200_000 }, undefined],
    ['nothing', {}, undefined],
  ])('if it cannot be meant: %s', (_what, options, problem) => {
    const expected = problem === undefined ? [] : [expect.stringMatching(problem)]
    expect(runOptionProblems(options as never)).toEqual(expected)
  })

  test('outside of its range', () => {
    const [, ...good] = [1, 2, 3, 4]
    for (const value of [undefined, ...good]) expect(rangeProblems('n', value, [2, 4])).toEqual([])
    for (const value of [1, 5, 2.5, '3', null, Number.NaN])
      expect(rangeProblems('n', value, [2, 4])).toEqual([
        `Expected \`n\` to be an integer from 2 to 4, got ${quoted(value)}. Units are milliseconds.`,
      ])
  })

  test('of another type', () => {
    for (const [type, good, bad, words] of [
      ['boolean', [true, false, undefined], [1, 'true', null, {}], 'true or false'],
      ['object', [{}, undefined], [null, [], 'text', 1, true], 'an object'],
    ] as const) {
      for (const value of good) expect(typeProblems('o', value, type)).toEqual([])
      for (const value of bad)
        expect(typeProblems('o', value, type)).toEqual([
          `Expected \`o\` to be ${words}, got ${quoted(value)}.`,
        ])
    }
  })
})

test('what is not given is quoted as that, and all else with its type', () => {
  expect([undefined, null, 5, 'a', Object.create(null)].map(quoted)).toEqual([
    'undefined',
    '`null` (object)',
    '`5` (number)',
    '`a` (string)',
    '`{…}` (object)',
  ])
})

test('a setting that is undefined takes no place', () => {
  expect(withoutUndefined({ a: undefined, b: null, c: 0 })).toEqual({ b: null, c: 0 })
  expect(withoutUndefined(undefined)).toEqual({})
})
