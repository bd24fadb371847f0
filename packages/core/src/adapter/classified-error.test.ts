import { expect, test } from 'vitest'
import {
  ConfigurationError,
  FatalError,
  RetryableError,
  StoreUnavailableError,
} from '../model/errors.ts'
import { classifierOf, isFatal, isStoreDown } from './classified-error.ts'

// Red before for the third: a connection function or a provider of credentials that asks for a retry ended the consumer.
test.each([
  [new ConfigurationError('no such queue'), true],
  [new FatalError('never again'), true],
  [new RetryableError('the server of tokens is down'), false],
  [new StoreUnavailableError('down'), false],
  [new Error('ECONNREFUSED'), false],
  [undefined, false],
])('%s ends a consumer: %s', (error, isEnd) => {
  expect(isFatal(error)).toBe(isEnd)
})

test('only an unavailable store is a store that is down', () => {
  expect(isStoreDown(new StoreUnavailableError('down'))).toBe(true)
  expect(isStoreDown(new ConfigurationError('no tables'))).toBe(false)
  expect(isStoreDown(new Error('down'))).toBe(false)
})

const classify = classifierOf((error) => ({ kind: 'network', text: String(error) }))

test.each([
  ['one line', 'one line'],
  ['two\nlines', 'two lines'],
  ['two \r\n\r\n  lines', 'two lines'],
  ['a\n\nb\nc', 'a b c'],
  ['x'.repeat(2_000), 'x'.repeat(2_000)],
  ['x'.repeat(2_001), `${'x'.repeat(2_000)}…`],
])('the text of an error is one line of bounded length: %#', (thrown, text) => {
  expect(classify(thrown)).toEqual({ kind: 'network', text })
})
