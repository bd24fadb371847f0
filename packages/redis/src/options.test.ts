import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { type RedisLeasesOptions, redisLeases } from './index.ts'
import { DEFAULTS, redisOptions } from './options.ts'

const client = { evalSha: async () => [], eval: async () => [] }

/** By a program without types. */
const leasesWith = (options: object) => redisLeases(client, options as RedisLeasesOptions)

test.each([
  [{ namespace: '{x}' }, /Expected `namespace` to be 1 to 64 of/],
  [{ budgetMs: 0 }, /Expected `budgetMs` to be an integer from 1 to 60000, got `0`/],
  [{ rememberDoneMs: 1.5 }, /Expected `rememberDoneMs` to be an integer/],
  [{ budgetMS: 20 }, /^redisLeases does not know "budgetMS", did you mean "budgetMs"\?$/],
  [{ rememberMs: 20 }, /did you mean "rememberDoneMs"\?$/],
  [
    { ttl: 20 },
    /redisLeases does not know "ttl". It knows: budgetMs, namespace, rememberDoneMs, hold\./,
  ],
  [{ hold: 'never' }, /Expected `hold` to be 'always' or 'by-need', got `never`/],
])('refuses the options %j', (options, message) => {
  expect(() => leasesWith(options)).toThrow(ConfigurationError)
  expect(() => leasesWith(options)).toThrow(message)
})

test('takes the options at their bounds, and by default the namespace alone is known', () => {
  expect(redisOptions({})).toEqual({
    ...{ budgetMs: undefined, namespace: 'onceward', rememberDoneMs: undefined, hold: 'by-need' },
  })
  for (const options of [
    { budgetMs: 1, namespace: 'a', rememberDoneMs: 1_000, hold: 'always' as const },
    {
      ...{ budgetMs: 60_000, namespace: 'Az09._:-'.repeat(8), rememberDoneMs: 31_536_000_000 },
      hold: 'by-need' as const,
    },
  ]) {
    expect(redisOptions(options)).toEqual(options)
  }
  expect(Object.isFrozen(DEFAULTS)).toBe(true)
  expect(DEFAULTS).toEqual({
    ...{ besideMs: 20, aloneMs: 1_000, rememberDoneMs: 3_600_000, namespace: 'onceward' },
    hold: 'by-need',
  })
})

test.each([
  ...[{ budgetMs: 60_001 }, { budgetMs: -1 }, { budgetMs: '20' }, { budgetMs: null }],
  ...[{ rememberDoneMs: 999 }, { rememberDoneMs: 31_536_000_001 }],
  ...[{ namespace: '' }, { namespace: 'x'.repeat(65) }, { namespace: 5 }, { namespace: null }],
  ...[{ namespace: ' a' }, { namespace: 'a\n' }, { namespace: 'ä' }],
])('refuses what is beyond the bounds: %j', (options) => {
  expect(() => leasesWith(options)).toThrow(ConfigurationError)
  expect(() => leasesWith(options)).toThrow(/^Expected `/)
})

test.each([
  'redis://:hunter2@cache.internal:6379/0',
  'rediss://app:hunter2@cache',
  'Server=db;User=app;Password=hunter2',
  `hunter2${'x'.repeat(500)}@cache`,
])('does not show a connection string that was given as namespace', (namespace) => {
  expect(() => redisLeases(client, { namespace })).toThrow(ConfigurationError)
  expect(() => redisLeases(client, { namespace })).not.toThrow(/hunter2/)
})

test('bounds what it shows of a namespace', () => {
  const namespace = 'x'.repeat(100_000)
  expect(() => redisLeases(client, { namespace })).toThrow(/^.{1,300}$/)
})
