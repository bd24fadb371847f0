import type { PoolClient } from 'pg'
import { expect, test } from 'vitest'
import { sendTo } from './pg-query.ts'

const answered = { command: 'SELECT', rowCount: 0, rows: [] }

/** Libraries that watch queries put a function of their own in place of `query`. */
const clientOf = (query: () => unknown): PoolClient => ({ query }) as unknown as PoolClient

// Red when a refusal without a reason is taken for an answer: what was not stored would count as stored.
test('a query that is rejected without a reason fails', async () => {
  const refused = clientOf(() => Promise.reject())
  await expect(sendTo(refused, 'begin')).rejects.toThrow('A query was rejected without a reason.')
})

test.each([
  ['one statement', answered, [answered]],
  ['several', [answered, answered], [answered, answered]],
])('a text of %s has a list of answers', async (_, answer, expected) => {
  expect(
    await sendTo(
      clientOf(() => Promise.resolve(answer)),
      'begin',
    ),
  ).toEqual(expected)
})
