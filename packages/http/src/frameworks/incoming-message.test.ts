import { once } from 'node:events'
import { IncomingMessage, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import express from 'express'
import fc from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { guardOf, kindOf, requestOf, shown } from '../fixtures/charges.ts'
import { listen, type Running, send, serve } from '../fixtures/servers.ts'
import { expressRoute } from './express.ts'
import { nodeListener } from './node.ts'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

function connected({ url }: Running): Socket {
  const { hostname, port } = new URL(url)
  return connect(Number(port), hostname)
}

interface Asked {
  readonly target: string
  readonly host?: string
  readonly key?: string
}

async function ask(server: Running, { host = 'x', key = 'k', target }: Asked): Promise<string> {
  const socket = connected(server)
  socket.write(
    `POST ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nContent-Length: 0\r\nIdempotency-Key: ${key}\r\n\r\n`,
  )
  const answer = await text(socket)
  return `${answer.slice(9, 12)} ${answer.split('\r\n\r\n')[1]}`
}

describe('the URL of a request', () => {
  test.each(['express', 'fastify', 'hono', 'node'] as const)(
    '%s: is the same in the absolute form, which proxies send',
    async (framework) => {
      const guard = guardOf(({ request }) => ({ body: request.url }))
      const server = await serve(framework, guard)
      opened.push(server, guard)
      const first = await ask(server, { target: '/charges?a=1' })
      expect(first).toBe('200 http://x/charges?a=1')
      expect(await ask(server, { target: 'http://x/charges?a=1' })).toBe(first)
      expect(await ask(server, { target: 'http://y:80/charges?a=1' })).toBe(first)
      expect(await ask(server, { target: 'http://x/charges?a=2' })).toMatch(/^422/)
      expect(await ask(server, { key: 'l', target: 'http://x/charges?a=2' })).toBe(
        '200 http://x/charges?a=2',
      )
    },
  )

  test('property: has the path and the query of the target, whatever the client sends as host', async () => {
    const guard = guardOf(({ request }) => ({ body: request.url }))
    const server = await serve('node', guard)
    opened.push(server, guard)
    const part = fc.string({ unit: fc.constantFrom(...'ab09./\\?#@:[]%&=-_~;,!$*+') })
    let key = 0
    const property = fc.asyncProperty(part, part, async (host, path) => {
      key += 1
      const answer = await ask(server, { host, target: `/${path}`, key: `k${key}` })
      expect(answer.slice(0, 3)).toBe('200')
      const { password, pathname, search, username } = new URL(answer.slice(4))
      const asked = new URL(`http://localhost/${path}`)
      expect([pathname, search]).toEqual([asked.pathname, asked.search])
      expect([username, password]).toEqual(['', ''])
    })
    await fc.assert(property, {
      numRuns: 300,
      examples: [
        ['evil/other?', 'charges'],
        ['', 'charges'],
        ['a:b@c', 'charges'],
        ['x#', 'charges'],
        ['x\\y', 'charges'],
      ],
    })
  })

  test('counts what Express took off when it is mounted', async () => {
    const guard = guardOf(({ request }) => ({ body: new URL(request.url).pathname }))
    const app = express()
    for (const path of ['/a', '/b']) app.use(path, nodeListener(guard))
    const server = await listen(app)
    opened.push(server, guard)
    expect((await send(server, { key: 'k', path: '/a/charges' })).text).toBe('/a/charges')
    const other = await send(server, { key: 'k', path: '/b/charges' })
    expect([other.status, kindOf(other)]).toEqual([422, 'key-reused'])
  })
})

test('a request that an adapter of AWS Lambda made without raw headers has its key', async () => {
  const guard = guardOf(({ payload, request }) => ({
    body: { payload: payload as null, trace: request.headers.get('x-trace') },
  }))
  const app = express()
  app.post('/charges', expressRoute(guard))
  const socket = { encrypted: true, remoteAddress: '10.0.0.1' } as unknown as Socket
  const headers = {
    'content-type': 'application/json',
    'idempotency-key': 'k',
    'x-trace': 'a, b',
    'set-cookie': ['a', 'b'],
    // Red when only texts are values: serverless-http counts the length where the platform tells none.
    'content-length': 13,
  }
  const body = Buffer.from('{"cents":500}')
  const request = Object.assign(new IncomingMessage(socket), {
    ...{ method: 'POST', url: '/charges', headers, body },
  })
  const response = new ServerResponse(request)
  const end = vi.spyOn(response, 'end')
  app(request as unknown as express.Request, response as unknown as express.Response)
  await vi.waitFor(() => expect(end).toHaveBeenCalled())
  expect(end).toHaveBeenCalledWith('{"payload":{"cents":500},"trace":"a, b"}')
})

describe('a body that somebody has read before the guard', () => {
  const handler = vi.fn(() => ({ body: 'charged' }))
  const reads: Readonly<Record<string, (body: ReadableStream) => Promise<unknown>>> = {
    'to its end': async (body) => {
      for await (const _ of body);
    },
    'in part': async (body) => {
      const reader = body.getReader()
      await reader.read()
      reader.releaseLock()
    },
    'and locked': async (body) => body.getReader(),
    'or cancelled': (body) => body.cancel(),
  }

  test.each(Object.keys(reads))('of a Web Request %s is not taken for another', async (how) => {
    handler.mockClear()
    const error = vi.fn()
    const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error }
    const guard = guardOf(handler, { logger })
    const request = requestOf()
    await reads[how]?.(request.body as ReadableStream)
    expect((await shown(await guard.fetch(request))).status).toBe(500)
    expect(handler).not.toHaveBeenCalled()
    expect(JSON.stringify(error.mock.calls)).toContain('bytes are gone')
    await guard.close()
  })

  test.each<readonly [string, number, (request: IncomingMessage) => unknown]>([
    ['read in part', 500, (request) => once(request, 'data').then(() => request.pause())],
    ['decoded', 500, (request) => request.setEncoding('utf8')],
    ['paused', 200, (request) => request.pause()],
    ['waited for', 200, (request) => once(request, 'readable')],
  ])('of node:http, or %s, is answered %i', async (_how, status, before) => {
    const guard = guardOf(handler)
    const guarded = nodeListener(guard)
    const server = await listen((request, response) => {
      void Promise.resolve(before(request)).then(() => guarded(request, response))
    })
    opened.push(server, guard)
    expect((await send(server)).status).toBe(status)
  })

  test('of node:http is no other one if it was empty', async () => {
    const guard = guardOf(({ payload }) => ({ body: JSON.stringify(payload) }))
    const guarded = nodeListener(guard)
    const server = await listen((request, response) => {
      request.once('end', () => guarded(request, response)).resume()
    })
    opened.push(server, guard)
    expect(await send(server, { body: '' })).toMatchObject({ status: 200, text: 'null' })
  })
})
