import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { HttpProblem, problemReply, problemText } from './problem.ts'

const given = { status: 402, title: 'card declined' }

test('a problem has the status of an error', () => {
  for (const status of [200, 399, 600, 400.5, '400', undefined]) {
    expect(() => new HttpProblem({ ...given, status: status as never })).toThrow(RangeError)
  }
  for (const status of [400, 599]) {
    expect(new HttpProblem({ ...given, status }).status).toBe(status)
  }
})

test('a problem is an Error whose message is for the log', () => {
  expect(new HttpProblem(given)).toMatchObject({ name: 'HttpProblem', message: 'card declined' })
  expect(new HttpProblem(given)).not.toHaveProperty('cause')
  const cause = new Error('no money')
  const problem = new HttpProblem({ ...given, detail: 'try another', cause })
  expect([problem.message, problem.cause]).toEqual(['card declined: try another', cause])
})

test('a problem is stored only if it says so', () => {
  for (const [store, isStored] of [
    [undefined, false],
    [false, false],
    [true, true],
  ] as const) {
    expect(new HttpProblem({ ...given, store }).store).toBe(isStored)
  }
})

test('a misspelt option is refused, and a copy of a problem is none', () => {
  expect(() => new HttpProblem({ ...given, stored: true } as never)).toThrow(ConfigurationError)
  const problem = new HttpProblem({ ...given, detail: 'a', store: true })
  const copy = new HttpProblem({ ...problem, status: 409 })
  expect({ ...copy }).toEqual({ ...problem, status: 409 })
})

test('a problem is known by its brand, also one of another copy of the package', () => {
  expect(HttpProblem.is(new HttpProblem(given))).toBe(true)
  expect(HttpProblem.is({ [Symbol.for('onceward.http-problem')]: true })).toBe(true)
  for (const value of [undefined, null, 'x', 5, {}, new Error('x')]) {
    expect(HttpProblem.is(value)).toBe(false)
  }
})

test('the text of a problem begins with its own members, which extensions do not replace', () => {
  const extensions = { balance: 5, status: 200, title: 'fine' }
  expect(problemText(new HttpProblem({ ...given, extensions }))).toBe(
    '{"type":"about:blank","title":"card declined","status":402,"balance":5}',
  )
  const whole = { ...given, type: 'urn:a', detail: 'b', instance: 'c' }
  expect(problemText(new HttpProblem(whole))).toBe(
    '{"type":"urn:a","title":"card declined","status":402,"detail":"b","instance":"c"}',
  )
})

test.each([
  ['a BigInt', 5n],
  ['a deep list', JSON.parse('['.repeat(20_000) + ']'.repeat(20_000)) as unknown],
])('extensions without JSON are named: %s', (_what, a) => {
  const problem = new HttpProblem({ ...given, extensions: { a } as never })
  for (const text of [problemText, problemReply]) {
    expect(() => text(problem)).toThrow(
      expect.objectContaining({
        code: 'ONCEWARD_ANSWER',
        message: expect.stringContaining('`extensions`'),
      }),
    )
  }
})

test('the answer of a problem is stored by nobody unless its headers say so, and its type is fixed', () => {
  const headersOf = (headers?: Record<string, string>): unknown =>
    Object.fromEntries(problemReply(new HttpProblem({ ...given, headers })).headers)
  const type = { 'content-type': 'application/problem+json' }
  expect(headersOf()).toEqual({ ...type, 'cache-control': 'no-store' })
  expect(headersOf({ 'Cache-Control': 'max-age=5', 'Content-Type': 'text/html' })).toEqual({
    ...type,
    'cache-control': 'max-age=5',
  })
})
