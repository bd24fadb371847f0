import { RetryableError } from '@onceward/core'
import { expect, test } from 'vitest'
import type { Exchange } from './exchange.ts'
import { CREDENTIALS, exchangeOf, REQUEST_HEADERS } from './stored-request.ts'

test('no credential is among the headers that are stored', () => {
  expect(REQUEST_HEADERS.filter((name) => CREDENTIALS.includes(name))).toEqual([])
  expect(CREDENTIALS).toEqual(['authorization', 'proxy-authorization', 'cookie'])
  expect(Object.isFrozen(REQUEST_HEADERS)).toBe(true)
  expect([...REQUEST_HEADERS].toSorted()).toEqual([
    ...['content-encoding', 'content-language', 'content-type', 'date', 'user-agent'],
    ...['webhook-id', 'webhook-timestamp', 'x-github-delivery', 'x-github-event'],
    ...['x-github-hook-id', 'x-github-hook-installation-target-id'],
    'x-github-hook-installation-target-type',
  ])
})

test('an event whose stored request cannot be read is retried', () => {
  const raw = {} as Exchange
  expect(exchangeOf({ raw })).toBe(raw)
  expect(() => exchangeOf({})).toThrow(RetryableError)
})
