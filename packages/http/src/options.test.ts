import { ConfigurationError } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { describe, expect, test } from 'vitest'
import { createHttpGuard } from './http-guard.ts'
import {
  type AnyHttpOptions,
  checkOptions,
  DEFAULTS,
  HTTP_NAMES,
  headerNameProblems,
  storedHeadersOf,
} from './options.ts'
import { createWebhookGuard } from './webhooks/webhook-guard.ts'

const check = (options: object) => (): void =>
  checkOptions('createHttpGuard', { tenant: 'none', ...options } as AnyHttpOptions, HTTP_NAMES)

describe('the options of a guard', () => {
  test.each<object>([
    {},
    { tenant: () => 'acme' },
    { fingerprint: 'body' },
    { fingerprint: 'none' },
    { fingerprint: () => 1 },
    { onHangUp: 'finish' },
    { onHangUp: 'abort' },
    { decode: () => 1 },
    { maxBodyBytes: 1 },
    { maxBodyBytes: 67_108_864 },
    { maxWaiting: 0 },
    { maxWaiting: 1_000_000 },
    { storedHeaders: ['x-a', "!#$%&'*+.^_`|~09AZ"] },
  ])('may be %o', (options) => {
    expect(check(options)).not.toThrow()
  })

  test.each<readonly [object, RegExp]>([
    [{ tenant: 5 }, /`tenant` to be a function/],
    [{ fingerprint: 'all' }, /`fingerprint` to be 'body', 'none' or a function, got `all`/],
    [{ fingerprint: null }, /`fingerprint` to be/],
    [{ onHangUp: 'stop' }, /`onHangUp` to be 'finish' or 'abort', got `stop`/],
    [{ decode: 5 }, /`decode` to be a function/],
    [{ schema: {} }, /`schema` to be a Standard Schema/],
    [{ maxBodyBytes: 0 }, /`maxBodyBytes`.*bytes/],
    [{ maxBodyBytes: 67_108_865 }, /`maxBodyBytes`/],
    [{ maxWaiting: -1 }, /`maxWaiting`.*requests/],
    [{ maxWaiting: 1_000_001 }, /`maxWaiting`/],
    [{ storedHeaders: 'x-a' }, /`storedHeaders` to be a list of names, got `x-a`/],
    [{ storedHeaders: [5] }, /`storedHeaders` to hold names of headers, got `5`/],
    [{ storedHeaders: ['Set-Cookie'] }, /`storedHeaders` without `Set-Cookie`: a replay/],
    [{ tenat: 'none' }, /did you mean "tenant"/],
  ])('are not %o', (options, message) => {
    expect(check(options)).toThrow(message)
    expect(check(options)).toThrow(ConfigurationError)
  })

  test('have all their problems in one error', () => {
    const wrong = check({ maxWaiting: -1, onHangUp: 'stop', storedHeaders: ['x-a', 'a b', ''] })
    for (const name of [/maxWaiting/, /onHangUp/, /got `a b`/, /got ``/]) {
      expect(wrong).toThrow(name)
    }
    expect(wrong).not.toThrow(/x-a/)
  })
})

test.each(['a b', ' a', 'a:', 'a\n', 'ä'])('%j is no name of a header', (name) => {
  expect(headerNameProblems('x', [name], { refused: [], why: '' })).toHaveLength(1)
})

test('the headers that are stored are the usual ones and those that the user lists', () => {
  const names = storedHeadersOf({ tenant: 'none', storedHeaders: ['X-Trace'] } as never)
  expect([...names]).toEqual([...DEFAULTS.storedHeaders, 'x-trace'])
  expect([...storedHeadersOf({ tenant: 'none' } as never)].toSorted()).toEqual([
    ...['cache-control', 'content-disposition', 'content-encoding', 'content-language'],
    ...['content-location', 'content-type', 'etag', 'last-modified', 'link', 'location', 'vary'],
  ])
  expect([DEFAULTS, DEFAULTS.storedHeaders].every((each) => Object.isFrozen(each))).toBe(true)
})

// Red when a copy of the options is all that is looked at: a webhook took the deliveries of all tenants for those of one.
test('options on a prototype are refused, because a copy of the options would not have them', () => {
  class Shared {
    readonly consumer = 'hooks'
    readonly inbox = memoryInbox()
    readonly verify = () => ({ key: 'k' })
    tenant(): string {
      return 'acme'
    }
  }
  const told = /Expected `tenant` to be a member of the options of `create/
  const handler = () => undefined
  expect(() => createWebhookGuard(new Shared() as never, handler)).toThrow(told)
  expect(() => createHttpGuard(new Shared() as never, handler as never)).toThrow(told)
})
