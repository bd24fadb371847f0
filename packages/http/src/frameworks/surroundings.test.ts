import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import {
  connect as connectHttp2,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import express from 'express'
import { fastify } from 'fastify'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { guardOf } from '../fixtures/charges.ts'
import { FRAMEWORKS, listen, listenerOf, type Running, send, serve } from '../fixtures/servers.ts'
import { expressRoute, keepRawBody } from './express.ts'
import { fastifyRoute, rawBodies } from './fastify.ts'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

type Http2Listener = (request: Http2ServerRequest, response: Http2ServerResponse) => void

// Express 5 has no HTTP/2.
test.each(FRAMEWORKS.filter((framework) => framework !== 'express'))(
  '%s answers over HTTP/2',
  async (framework) => {
    const guard = guardOf(({ request }) => ({
      headers: { upgrade: 'h2c', 'http2-settings': 'AAAA', 'keep-alive': 'timeout=5' },
      body: new URL(request.url).pathname,
    }))
    const listener = (await listenerOf(framework, guard)) as unknown as Http2Listener
    const server = createHttp2Server(listener)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const session = connectHttp2(`http://127.0.0.1:${port}`)
    opened.push(guard, {
      close: async () => {
        session.destroy()
        server.close()
      },
    })
    const post = async (body: string): Promise<readonly [unknown, string]> => {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/charges?a=1',
        'content-type': 'application/json',
        'idempotency-key': 'k',
      })
      stream.end(body)
      const [headers] = await once(stream, 'response')
      return [headers[':status'], await text(stream)]
    }
    expect(await post('{"cents":500}')).toEqual([200, '/charges'])
    expect(await post('{"cents":500}')).toEqual([200, '/charges'])
    expect((await post('{"cents":501}'))[0]).toBe(422)
  },
)

describe('behind a middleware', () => {
  test.each(['express', 'node'] as const)(
    '%s: a client that hung up meanwhile is not in flight for ever',
    async (framework) => {
      const handler = vi.fn(() => undefined)
      const guard = guardOf(handler)
      const guarded = await listenerOf(framework, guard)
      const began = Promise.withResolvers<void>()
      const answered = Promise.withResolvers<void>()
      const server = await listen((request, response) => {
        request.on('error', () => undefined)
        request.once('close', () => {
          guarded(request, response)
          answered.resolve()
        })
        began.resolve()
      })
      opened.push(server, guard)
      const { hostname, port } = new URL(server.url)
      const socket = connect(Number(port), hostname)
      socket.write(
        'POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 9\r\n\r\n{"a"',
      )
      await began.promise
      socket.destroy()
      await answered.promise
      await vi.waitFor(() => expect(guard.health().inFlight).toBe(0))
      expect(handler).not.toHaveBeenCalled()
    },
  )

  test('node:http answers 500 if the body was read before', async () => {
    const handler = vi.fn(() => undefined)
    const guarded = await listenerOf('node', guardOf(handler))
    const server = await listen((request, response) => {
      request.once('end', () => guarded(request, response)).resume()
    })
    opened.push(server)
    expect((await send(server)).status).toBe(500)
    expect(handler).not.toHaveBeenCalled()
  })

  test.each(['express', 'node'] as const)(
    '%s: an answer that cannot be written does not end the process',
    async (framework) => {
      const guarded = await listenerOf(
        framework,
        guardOf(() => ({ body: 'charged' })),
      )
      let isBroken = true
      const server = await listen((request, response) => {
        const { end } = response
        response.end = ((...given: Parameters<typeof end>) => {
          if (isBroken && response.statusCode === 200) throw new Error('the middleware failed')
          return end.apply(response, given)
        }) as typeof end
        guarded(request, response)
      })
      opened.push(server)
      const first = await send(server, { key: 'k' }).catch(() => undefined)
      expect(first?.status).toBe(framework === 'express' ? 500 : undefined)
      isBroken = false
      expect(await send(server, { key: 'k' })).toMatchObject({ status: 200, text: 'charged' })
    },
  )
})

test.each(['express', 'node'] as const)(
  '%s: an answer that something else has sent is reported, because retries get another one',
  async (framework) => {
    const lines: string[] = []
    const note = (_fields: object, text: string) => void lines.push(text)
    const logger = { debug: () => undefined, info: note, warn: note, error: note }
    let response: ServerResponse | undefined
    const guard = guardOf(() => void response?.writeHead(201).end('sent by hand'), { logger })
    const guarded = await listenerOf(framework, guard)
    const server = await listen((request, own) => {
      response ??= own
      guarded(request, own)
    })
    opened.push(server, guard)
    expect(await send(server, { key: 'k' })).toMatchObject({ status: 201, text: 'sent by hand' })
    await vi.waitFor(() => expect(lines).toHaveLength(1))
    expect(lines[0]).toMatch(/return the answer from the handler/)
    expect(await send(server, { key: 'k' })).toMatchObject({ status: 204, text: '' })
    expect(lines).toHaveLength(1)
  },
)

describe('behind a body parser', () => {
  const charge = guardOf(({ payload, request }) => ({
    body: { payload: payload as null, bytes: Buffer.from(request.bytes).toString() },
  }))
  const body = '{ "cents": 500 }'
  const taken = JSON.stringify({ payload: { cents: 500 }, bytes: body })

  async function express5(parser: express.RequestHandler): Promise<Running> {
    const app = express()
    app.use(parser)
    app.post('/charges', expressRoute(charge))
    app.use(((error: Error, _request, response, _next) => {
      response.status(500).send(error.message)
    }) satisfies express.ErrorRequestHandler)
    const server = await listen(app)
    opened.push(server)
    return server
  }

  test('Express says what to do when the bytes are gone', async () => {
    const server = await express5(express.json())
    expect(await send(server, { body })).toMatchObject({
      status: 500,
      text: expect.stringContaining('keepRawBody'),
    })
    expect((await send(server, { headers: { 'content-type': 'text/plain' } })).status).toBe(415)
  })

  test.each([
    ['express.json with keepRawBody', express.json({ verify: keepRawBody })],
    ['express.raw', express.raw({ type: () => true })],
  ])('Express takes the bytes that %s kept', async (_what, parser) => {
    expect(await send(await express5(parser), { body })).toMatchObject({ status: 200, text: taken })
  })

  // Red when the header decides, which the parser leaves as it was.
  test('Express takes a compressed body that express.json has inflated', async () => {
    const compressed = {
      body: new Uint8Array(gzipSync(body)),
      headers: { 'content-encoding': 'gzip' },
    }
    const behind = await express5(express.json({ verify: keepRawBody }))
    for (const sent of [compressed, { body }]) {
      expect(await send(behind, { key: 'inflated', ...sent })).toMatchObject({
        status: 200,
        text: taken,
      })
    }
    const alone = await serve('express', charge)
    opened.push(alone)
    // The payload is inflated, and `bytes` are as they came.
    const answer = await send(alone, compressed)
    expect(answer.status).toBe(200)
    expect(JSON.parse(answer.text)).toMatchObject({ payload: { cents: 500 } })
  })

  test('Fastify says what to do when rawBodies is not registered', async () => {
    const app = fastify()
    app.post('/charges', fastifyRoute(charge))
    await app.ready()
    const server = await listen((request, response) => app.routing(request, response))
    opened.push(server)
    const answer = await send(server, { body })
    expect(answer).toMatchObject({ status: 500, text: expect.stringContaining('rawBodies') })
  })

  test('Fastify keeps the bytes of a route whose handler a plugin has wrapped, if its config says so', async () => {
    const app = fastify()
    // As @fastify/otel does, before any other plugin sees the route.
    app.addHook('onRoute', (options) => {
      const { handler } = options
      options.handler = function wrapped(...given) {
        return handler.apply(this, given)
      }
    })
    await app.register(rawBodies)
    app.post('/charges', { config: { onceward: true } }, fastifyRoute(charge))
    app.post('/unmarked', fastifyRoute(charge))
    await app.ready()
    const server = await listen((request, response) => app.routing(request, response))
    opened.push(server)
    expect((await send(server, { body })).text).toBe(taken)
    const unmarked = await send(server, { body, path: '/unmarked' })
    expect(unmarked).toMatchObject({ status: 500, text: expect.stringContaining('onceward: true') })
    const small = guardOf(() => undefined, { maxBodyBytes: 3 })
    opened.push(small)
    const other = fastify()
    await other.register(rawBodies)
    const route = fastifyRoute(small)
    other.post('/charges', { config: { onceward: true } }, (...given) => route(...given))
    await other.ready()
    const limited = await listen((request, response) => other.routing(request, response))
    opened.push(limited)
    expect((await send(limited, { body })).status).toBe(413)
  })

  test('Fastify keeps the bytes of guarded routes of encapsulated plugins, and parses bodies as ever', async () => {
    const app = fastify()
    await app.register(rawBodies)
    await app.register(async (scope) => {
      scope.post('/charges', {
        handler: fastifyRoute(charge),
        preHandler: async (request) => expect(request.body).toEqual({ cents: 500 }),
      })
    })
    app.post('/other', async (request) => request.body)
    await app.ready()
    const server = await listen((request, response) => app.routing(request, response))
    opened.push(server)
    expect((await send(server, { body })).text).toBe(taken)
    expect((await send(server, { body, path: '/other' })).text).toBe('{"cents":500}')
  })
})
