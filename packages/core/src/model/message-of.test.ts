import { expect, test } from 'vitest'
import { messageOf } from './message-of.ts'

class ConnectTimeoutError extends Error {}

test.each<[string, unknown, string]>([
  ['a message', new Error('no'), 'no'],
  ['no message', new ConnectTimeoutError(), 'ConnectTimeoutError'],
  ['no error', 'text', 'text'],
  ['nothing', undefined, 'undefined'],
  ['null', null, 'null'],
  ['members', new AggregateError([new Error('a'), 'b', new TypeError()]), 'a, b, TypeError'],
  ['members and a message', new AggregateError([new Error('a')], 'all failed'), 'all failed'],
  ['a member with members', new AggregateError([new AggregateError([1], 'in')]), 'in'],
  [
    'a member with unnamed members',
    new AggregateError([new AggregateError([1])]),
    'AggregateError',
  ],
])('what is thrown with %s says', (_what, error, message) => {
  expect(messageOf(error)).toBe(message)
})

test('at most a hundred members are named', () => {
  const members = Array.from({ length: 101 }, (_, index) => new Error(`${index}`))
  expect(messageOf(new AggregateError(members)).split(', ')).toHaveLength(100)
})
