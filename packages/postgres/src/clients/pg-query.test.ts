import type { PoolClient } from 'pg'
import { expect, test } from 'vitest'
import { sendTo } from './pg-query.ts'

const answered = { command: 'SELECT', rowCount: 0, rows: [] }

/** As libraries that watch queries put a function of their own in place of `query`. */
const clientOf = (query: () => unknown): PoolClient => ({ query }) as unknown as PoolClient

/** As Bluebird's, no instance of `Promise`. */
const foreign = (promise: Promise<unknown>): unknown => ({
  // biome-ignore lint/suspicious/noThenProperty: a promise of another library
  then: promise.then.bind(promise),
})

// Red before: the answer was never heard, so the call did not end.
test('a query that answers a promise of another library is awaited', async () => {
  const asked = clientOf(() => foreign(Promise.resolve(answered)))
  const refused = clientOf(() => foreign(Promise.reject(new Error('no'))))
  expect(await sendTo(asked, 'begin')).toEqual([answered])
  await expect(sendTo(refused, 'begin')).rejects.toThrow('no')
})
