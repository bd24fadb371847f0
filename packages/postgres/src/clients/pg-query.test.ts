import type { PoolClient } from 'pg'
import { expect, test, vi } from 'vitest'
import { query, queryOf, sendTo } from './pg-query.ts'

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

// Red when a refusal without a reason is taken for an answer: what was not stored would count as stored.
test('a query that is rejected without a reason fails', async () => {
  const refused = clientOf(() => Promise.reject())
  await expect(sendTo(refused, 'begin')).rejects.toThrow('A query was rejected without a reason.')
})

test('a query whose promise answers nothing is answered by its callback', async () => {
  const answers: unknown[] = []
  const asked = vi.fn((_text: unknown, callback: (error: unknown, answer: unknown) => void) => {
    setImmediate(() => callback(undefined, answered))
    return Promise.resolve()
  })
  await new Promise<void>((resolve) => {
    query(clientOf(asked as never), 'begin', (...answer) => {
      answers.push(answer)
      resolve()
    })
  })
  expect(answers).toEqual([[undefined, answered]])
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

test('a statement without values has none, because pg prepares those that have', () => {
  expect(queryOf('select')).not.toHaveProperty('values')
  const values = ['a']
  expect(queryOf('select $1', values).values).toEqual(values)
  expect(queryOf('select $1', values).values).not.toBe(values)
  expect(queryOf('select').types?.getTypeParser(23)('1')).toBe('1')
})
