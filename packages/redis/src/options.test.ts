import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { redisLeases } from './index.ts'

const client = { evalSha: async () => [], eval: async () => [] }

test.each([
  [{ namespace: '{x}' }, /Expected `namespace` to be 1 to 64 of/],
  [{ budgetMs: 0 }, /Expected `budgetMs` to be an integer from 1 to 60000, got `0`/],
  [{ rememberDoneMs: 1.5 }, /Expected `rememberDoneMs` to be an integer/],
])('refuses the options %j', (options, message) => {
  expect(() => redisLeases(client, options)).toThrow(ConfigurationError)
  expect(() => redisLeases(client, options)).toThrow(message)
})
