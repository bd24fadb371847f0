import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { type RedisLeasesOptions, redisLeases } from './index.ts'

const client = { evalSha: async () => [], eval: async () => [] }

/** By a program without types. */
const leasesWith = (options: object) => redisLeases(client, options as RedisLeasesOptions)

test.each([
  [{ namespace: '{x}' }, /Expected `namespace` to be 1 to 64 of/],
  [{ budgetMs: 0 }, /Expected `budgetMs` to be an integer from 1 to 60000, got `0`/],
  [{ rememberDoneMs: 1.5 }, /Expected `rememberDoneMs` to be an integer/],
  [{ budgetMS: 20 }, /^redisLeases does not know "budgetMS", did you mean "budgetMs"\?$/],
  [{ rememberMs: 20 }, /did you mean "rememberDoneMs"\?$/],
  [{ ttl: 20 }, /redisLeases does not know "ttl". It knows: budgetMs, namespace, rememberDoneMs\./],
])('refuses the options %j', (options, message) => {
  expect(() => leasesWith(options)).toThrow(ConfigurationError)
  expect(() => leasesWith(options)).toThrow(message)
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
