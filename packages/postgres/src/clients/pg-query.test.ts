import type { PoolClient } from 'pg'
import { expect, test } from 'vitest'
import { sendTo } from './pg-query.ts'

const answered = { command: 'SELECT', rowCount: 0, rows: [] }

/** Libraries that watch queries put a function of their own in place of `query`. */
const clientOf = (query: () => unknown): PoolClient => ({ query }) as unknown as PoolClient

/** Bluebird's promises are no instances of `Promise`. */
const foreign = (promise: Promise<unknown>): unknown => ({
  // biome-ignore lint/suspicious/noThenProperty: promises of other libraries have one
  then: promise.then.bind(promise),
})

// Red when only a `Promise` is heard: the call does not end.
test('a query that answers a promise of another library is awaited', async () => {
  const asked = clientOf(() => foreign(Promise.resolve(answered)))
  const refused = clientOf(() => foreign(Promise.reject(new Error('no'))))
  expect(await sendTo(asked, 'begin')).toEqual([answered])
  await expect(sendTo(refused, 'begin')).rejects.toThrow('no')
})
