import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Access, type Asked, HEADERS, LOOPBACK, refusalOf } from './access.ts'

const reading: Access = {
  token: undefined,
  hosts: LOOPBACK,
  acceptsAddresses: false,
  allowsChanges: false,
}
const changing: Access = {
  token: 'right',
  hosts: LOOPBACK,
  acceptsAddresses: false,
  allowsChanges: true,
}
const HOST = '127.0.0.1:4180'

const get = (headers: Asked['headers'] = {}, path = '/api/status'): Asked => ({
  ...{ method: 'GET', path, headers: { host: HOST, ...headers } },
})
const post = (headers: Asked['headers'] = {}): Asked => ({
  ...{ method: 'POST', path: '/api/replay' },
  headers: {
    ...{ host: HOST, origin: `http://${HOST}`, 'content-type': 'application/json' },
    ...{ authorization: 'Bearer right', 'sec-fetch-site': 'same-origin', ...headers },
  },
})
const statusOf = (asked: Asked, access: Access): number | undefined =>
  refusalOf(asked, access)?.status

describe('reading', () => {
  test.each([HOST, 'localhost:4180', '[::1]:4180', 'localhost', 'LOCALHOST:80'])(
    'on loopback needs no token under the name %s',
    (host) => expect(statusOf(get({ host }), reading)).toBeUndefined(),
  )

  test('beyond loopback is possible under any address, and under no foreign name', () => {
    const wide = { ...changing, acceptsAddresses: true }
    const authorization = 'Bearer right'
    const ours = ['10.0.0.5:4180', '10.20.130.240', '[fd00::1]:4180', '[FD00::1]']
    for (const host of ours) expect(statusOf(get({ host, authorization }), wide)).toBeUndefined()
    const foreign = ['10.0.0.5.evil.example', 'evil.10.0.0.5', 'evil.example', '[evil.example]']
    for (const host of foreign) expect(statusOf(get({ host, authorization }), wide)).toBe(421)
  })

  // DNS rebinding: a page of evil.example whose name was made to resolve to 127.0.0.1.
  test.each([
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example:4180',
    '10.0.0.5',
    undefined,
  ])('is refused under the name %s', (host) => expect(statusOf(get({ host }), reading)).toBe(421))

  test.each([
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
  ])('is refused to another site: %j', (headers) => {
    expect(statusOf(get(headers), reading)).toBe(403)
  })

  test('needs the right token where there is one, of whatever form the wrong one is', () => {
    expect(statusOf(get({ authorization: 'Bearer right' }), changing)).toBeUndefined()
    expect(statusOf(get(), changing)).toBe(401)
    fc.assert(
      fc.property(fc.string(), (token) => {
        fc.pre(token !== 'right')
        return statusOf(get({ authorization: `Bearer ${token}` }), changing) === 401
      }),
    )
  })

  test.each(['XBearer right', 'Bearer right\n', 'Bearer right\nmore', 'bearer right', 'right'])(
    'is refused with the header %j',
    (authorization) => expect(statusOf(get({ authorization }), changing)).toBe(401),
  )

  test('the files of the page need no token, because a browser cannot send one for them', () => {
    expect(statusOf(get({}, '/'), changing)).toBeUndefined()
    expect(statusOf({ ...get({}, '/'), method: 'HEAD' }, changing)).toBeUndefined()
    expect(refusalOf({ ...post(), path: '/' }, changing)).toEqual({
      status: 405,
      message: 'Use GET.',
    })
  })
})

describe('a change', () => {
  test('is made with the token, from our own page', () => {
    expect(statusOf(post(), changing)).toBeUndefined()
  })

  test.each<readonly [Asked['headers'], number]>([
    [{ authorization: undefined }, 401],
    [{ authorization: 'Bearer wrong' }, 401],
    [{ origin: 'https://evil.example' }, 403],
    [{ origin: undefined }, 403],
    [{ 'sec-fetch-site': 'cross-site' }, 403],
    [{ 'content-type': 'text/plain' }, 415],
    [{ host: 'evil.example', origin: 'http://evil.example' }, 421],
  ])('with %j is refused with %i', (headers, status) => {
    expect(statusOf(post(headers), changing)).toBe(status)
  })

  test('is refused where changes are not allowed', () => {
    expect(statusOf(post(), { ...changing, allowsChanges: false })).toBe(403)
    expect(statusOf(post(), { ...reading, allowsChanges: true })).toBe(403)
  })

  test.each(['PUT', 'DELETE', 'OPTIONS', 'TRACE'])('by %s is refused', (method) => {
    expect(statusOf({ ...post(), method }, changing)).toBe(405)
  })
})

test('a page loads nothing from elsewhere, is in no frame, and makes no HTML of texts', () => {
  const policy = HEADERS['content-security-policy']?.split('; ')
  expect(policy).toEqual([
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"],
    ...["img-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    ...["require-trusted-types-for 'script'", "trusted-types 'none'"],
  ])
  expect(HEADERS).toMatchObject({ 'cache-control': 'no-store', 'x-frame-options': 'DENY' })
})
