import { expect, test } from 'vitest'
import type { PoolClientLike } from './client.ts'
import { forgetHistory } from './forget-history.ts'

test.each([
  ['the default schema', undefined, '"onceward"'],
  ['a schema that must be quoted', { schema: 'a "b"' }, '"a ""b"""'],
])('the history in %s is forgotten in a transaction', async (_which, options, schema) => {
  const sent: string[] = []
  const client: PoolClientLike = {
    query: async (text) => {
      sent.push(text)
      return { rows: [{ forget_history: '' }], rowCount: 1 }
    },
    release: () => undefined,
  }
  expect(await forgetHistory({ connect: async () => client }, options)).toBeUndefined()
  expect(sent.slice(1)).toEqual([`select ${schema}.forget_history()`, 'commit'])
})
