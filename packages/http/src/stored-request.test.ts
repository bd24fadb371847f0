import { RetryableError } from '@onceward/core'
import { expect, test } from 'vitest'
import type { Exchange } from './exchange.ts'
import type { HttpRequest } from './request.ts'
import {
  CREDENTIALS,
  exchangeOf,
  REQUEST_HEADERS,
  storable,
  toStoredForm,
} from './stored-request.ts'

const request: HttpRequest = {
  ...{ method: 'POST', url: 'http://x/charges?a=1', bytes: Uint8Array.of(1), original: 'context' },
  headers: new Headers({ 'x-a': '', 'x-b': 'c', authorization: 'secret' }),
}

test('of a request only the headers are stored that are listed, and nothing of the framework', () => {
  const { headers, ...others } = storable(request, ['x-a', 'x-b', 'x-c'])
  expect([...headers]).toEqual([
    ['x-a', ''],
    ['x-b', 'c'],
  ])
  expect(others).toEqual({
    ...{ method: 'POST', url: 'http://x/charges?a=1', bytes: Uint8Array.of(1) },
    original: undefined,
  })
})

test('the stored form has no body, which is stored beside it', () => {
  const exchange = { ...{ key: 'k', tenant: 'acme', target: '/', contentType: undefined }, request }
  expect(toStoredForm(exchange, ['x-b'])).toEqual({
    ...{ key: 'k', tenant: 'acme', method: 'POST', url: 'http://x/charges?a=1' },
    headers: [['x-b', 'c']],
  })
})

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
