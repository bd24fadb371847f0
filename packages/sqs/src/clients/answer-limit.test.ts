import { expect, test } from 'vitest'
import type { SqsClient } from '../client.ts'
import { longestPollMs } from './answer-limit.ts'

const clientOf = (timeouts: object): SqsClient => {
  const requestHandler = { httpHandlerConfigs: () => timeouts }
  return { config: { requestHandler } } as unknown as SqsClient
}
const ofNode = { throwOnRequestTimeout: undefined, requestTimeout: undefined }

test.each([
  ['no timeout', ofNode, undefined],
  ['before its first call', {}, undefined],
  ['a socket timeout', { ...ofNode, socketTimeout: 5_000 }, 4_000],
  ['one that is no whole second', { ...ofNode, socketTimeout: 5_900 }, 4_000],
  ['one below the slack', { ...ofNode, socketTimeout: 200 }, 0],
  ['none, said as 0', { ...ofNode, socketTimeout: 0 }, undefined],
  ['the default of the service', { ...ofNode, defaultSocketTimeout: 7_000 }, 6_000],
  ['another one', { ...ofNode, defaultSocketTimeout: 7_000, socketTimeout: 30_000 }, 29_000],
  ['a request timeout that only warns', { ...ofNode, requestTimeout: 3_000 }, undefined],
  ['one that ends', { throwOnRequestTimeout: true, requestTimeout: 3_000 }, 2_000],
  ['the handler for fetch', { requestTimeout: 3_000 }, 2_000],
  ['the shorter of both', { requestTimeout: 9_000, socketTimeout: 3_000 }, 2_000],
  ['what is no number', { requestTimeout: '3000', socketTimeout: Number.NaN }, undefined],
])('the long poll that a request handler waits for, with %s', (_what, timeouts, ms) => {
  expect(longestPollMs(clientOf(timeouts))).toBe(ms)
})

test('a client that does not tell has no limit', () => {
  for (const client of [{}, { config: {} }, { config: { requestHandler: { handle: () => 1 } } }]) {
    expect(longestPollMs(client as unknown as SqsClient)).toBeUndefined()
  }
})
