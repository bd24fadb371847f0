import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cli } from '../fixtures/cli.ts'
import { type Operated, operated } from '../fixtures/operated.ts'
import { type Served, served } from '../fixtures/served.ts'

let at: Operated
let changing: Served
let reading: Served

beforeAll(async () => {
  at = await operated()
  changing = await served(at.url, '--allow-changes')
  reading = await served(at.url)
})
afterAll(async () => {
  await changing[Symbol.asyncDispose]()
  await reading[Symbol.asyncDispose]()
  await at[Symbol.asyncDispose]()
})

interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

interface Answered {
  readonly status: number | undefined
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
}

/** Without the rules of a browser, and with the path as it is. */
function ask(of: Served, path: string, { body, headers, method }: Asked = {}): Promise<Answered> {
  const { hostname, port } = new URL(of.origin)
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, path, method, headers, agent: false }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString()
      })
      response.on('end', () =>
        resolve({ status: response.statusCode, headers: response.headers, text }),
      )
    })
    asked.on('error', reject)
    asked.end(body)
  })
}

const change = (body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answered> =>
  ask(changing, '/api/discard', {
    method: 'POST',
    headers: {
      ...{ origin: changing.origin, authorization: `Bearer ${changing.token}` },
      ...{ 'content-type': 'application/json', ...headers },
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

const ID = '00000000-0000-0000-0000-000000000000'

describe('a console that allows changes', () => {
  test('has a token of its own, without which it answers nothing', async () => {
    expect(changing.token.length).toBeGreaterThan(30)
    const refused = await ask(changing, '/api/status')
    expect(refused).toMatchObject({ status: 401, text: expect.not.stringContaining('billing') })
    const authorization = `Bearer ${changing.token}`
    expect(await ask(changing, '/api/status', { headers: { authorization } })).toMatchObject({
      status: 200,
    })
  })

  test('changes what its own page asks for, and nothing that another site sends', async () => {
    expect(await change({ ids: [ID], why: 'x' })).toMatchObject({
      status: 200,
      text: expect.stringContaining('"why":"unknown"'),
    })
    expect(await change({ ids: [ID], why: 'x' }, { origin: 'https://evil.example' })).toMatchObject(
      { status: 403 },
    )
    expect(await change({ ids: [ID], why: 'x' }, { 'content-type': 'text/plain' })).toMatchObject({
      status: 415,
    })
    expect(await change({ ids: [ID], why: 'x' }, { host: 'evil.example' })).toMatchObject({
      status: 421,
    })
  })

  test.each<readonly [string, unknown]>([
    ['no ids', {}],
    ['an empty list', { ids: [] }],
    ['what is no id', { ids: ['4711'], why: 'x' }],
    ['101 ids', { ids: Array(101).fill(ID), why: 'x' }],
    ['a discard without a reason', { ids: [ID] }],
    ['an empty reason', { ids: [ID], why: ' ' }],
    ['null', 'null'],
    ['a list', '[1]'],
    ['what is no JSON', '{'],
  ])('refuses %s', async (_, body) => {
    expect((await change(body)).status).toBe(400)
  })

  // PostgreSQL refuses a NUL: red as 503, as if the database were down.
  test('searches for a NUL, and takes one in a name', async () => {
    const authorization = `Bearer ${changing.token}`
    for (const name of ['search', 'consumer', 'reason']) {
      const found = await ask(changing, `/api/letters?${name}=a%00b`, {
        headers: { authorization },
      })
      expect([name, found.status]).toEqual([name, 200])
    }
    expect((await change({ ids: [ID], why: 'a\0b', by: 'a\0b' })).status).toBe(200)
  })

  test('refuses what is too large', async () => {
    expect((await change('x'.repeat(2_000_000))).status).toBe(413)
  })

  test('does not change anything by GET', async () => {
    const authorization = `Bearer ${changing.token}`
    const asked = await ask(changing, `/api/discard?ids=${ID}`, { headers: { authorization } })
    expect(asked.status).toBe(404)
  })
})

describe('a console on loopback that only reads', () => {
  test('needs no token, and takes no changes', async () => {
    expect(await ask(reading, '/api/status')).toMatchObject({ status: 200 })
    const asked = {
      method: 'POST',
      headers: { origin: reading.origin, 'content-type': 'application/json' },
    }
    expect(
      await ask(reading, '/api/replay', { ...asked, body: `{"ids":["${ID}"]}` }),
    ).toMatchObject({ status: 403 })
  })

  test('is not for pages of other sites, nor under other names', async () => {
    const headers = { 'sec-fetch-site': 'cross-site' }
    expect((await ask(reading, '/api/status', { headers })).status).toBe(403)
    expect((await ask(reading, '/api/status', { headers: { host: 'evil.example' } })).status).toBe(
      421,
    )
    expect((await ask(reading, '/', { headers: { host: 'evil.example' } })).status).toBe(421)
  })

  test.each([
    '/../package.json',
    '/..%2fserver.ts',
    '/constructor',
    '/server.ts',
    '/api/constructor',
    '/api/',
    '//',
    '//[',
    'http://[',
    '/%',
  ])('has nothing at %s', async (path) => {
    expect((await ask(reading, path)).status).toBe(404)
  })

  test('forbids the browser everything but its own files', async () => {
    const { headers, status } = await ask(reading, '/')
    expect(status).toBe(200)
    expect(headers).toMatchObject({
      'content-security-policy': expect.stringMatching(
        /^default-src 'none'; script-src 'self';.*frame-ancestors 'none'.*require-trusted-types-for 'script'/,
      ),
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    })
  })
})

test.each([
  [['--token', 'short'], 2, /at least 16 characters/],
  [['--port', 'http'], 2, /Expected --port/],
  [['--host', '203.0.113.7'], 3, /cannot listen on 203\.0\.113\.7/],
])('console %j ends with a sentence', async (args, code, text) => {
  const ended = await cli(['console', '--port', '0', ...args], at)
  expect(ended).toMatchObject({ code, stderr: expect.stringMatching(text) })
})
