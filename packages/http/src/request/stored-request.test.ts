import { type Delivery, EnvelopeError, RetryableError } from '@onceward/core'
import { withEnvelope } from '@onceward/core/adapter'
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

/** The reader of the stored form, where the core looks for it. */
const read = (delivery: object): unknown => {
  const readers: Map<string, (stored: object) => unknown> = Reflect.get(
    globalThis,
    Symbol.for('onceward.envelope-readers'),
  )
  return readers.get('http')?.(delivery)
}

test('the request is read back from its stored form and its body', () => {
  const headers = new Headers({ 'content-type': 'application/json', 'x-a': 'b' })
  const exchange = { key: 'k', tenant: 'acme', target: '/', contentType: undefined }
  const body = Uint8Array.of(1)
  for (const [names, contentType] of [
    [['content-type'], 'application/json'],
    [['x-a'], undefined],
  ] as const) {
    const stored = { ...exchange, request: { ...request, headers } }
    const { envelope } = withEnvelope({ body } as Delivery, () => toStoredForm(stored, names))
    expect(read({ body, envelope })).toEqual({
      ...{ key: 'k', tenant: 'acme', target: '/charges?a=1', contentType },
      request: storable(stored.request, names),
    })
  }
  expect(() => read({ body })).toThrow(EnvelopeError)
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
