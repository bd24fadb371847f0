import { once } from 'node:events'
import {
  connect as connectHttp2,
  constants,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import { afterEach, expect, test, vi } from 'vitest'
import { guardOf, requestOf } from '../fixtures/charges.ts'
import { type HttpGuard, runningOf } from '../http-guard.ts'
import { fromWebRequest } from '../request/request.ts'
import { fastifyRoute, rawBodies } from './fastify.ts'
import { honoRoute } from './hono.ts'
import { nodeListener } from './node.ts'

const opened: { close(): unknown }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

type Http2Listener = (request: Http2ServerRequest, response: Http2ServerResponse) => void
type Before = (response: NodeJS.EventEmitter) => Promise<unknown>

/** The guard behind a middleware that waits before the body is read, as one does that asks who the caller is. */
const LISTENERS: Readonly<
  Record<string, (guard: HttpGuard, before: Before) => Promise<Http2Listener>>
> = {
  fastify: async (guard, before) => {
    const app = fastify()
    await app.register(rawBodies)
    app.addHook('onRequest', async (_request, reply) => void (await before(reply.raw)))
    app.post('/charges', fastifyRoute(guard))
    await app.ready()
    return app.routing as unknown as Http2Listener
  },
  hono: async (guard, before) => {
    const app = new Hono<{ Bindings: HttpBindings }>()
    app.use(async (context, next) => {
      await before(context.env.outgoing)
      await next()
    })
    app.onError((error, context) => context.text(error.message, 500))
    app.post('/charges', honoRoute(guard))
    return getRequestListener(app.fetch) as unknown as Http2Listener
  },
  node: async (guard, before) => {
    const listener = nodeListener(guard)
    return (request, response) => void before(response).then(() => listener(request, response))
  },
}

async function listening(listener: Http2Listener): Promise<number> {
  const server = createHttp2Server(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  opened.push(server)
  return (server.address() as AddressInfo).port
}

/** A guard of texts, and the lines that tell of clients that hung up. */
function setUp() {
  const handler = vi.fn(({ payload }) => ({ body: payload }))
  const hungUp: object[] = []
  const debug = (fields: object, text: string): void => {
    if (text.startsWith('a client hung up')) hungUp.push(fields)
  }
  const error = vi.fn()
  const logger = { debug, info: vi.fn(), warn: vi.fn(), error }
  const decode = (bytes: Uint8Array): string => Buffer.from(bytes).toString()
  const guard = guardOf(handler, { decode, logger })
  opened.push(guard)
  const isOver = () => vi.waitFor(() => expect(hungUp.length + handler.mock.calls.length).toBe(1))
  return { guard, handler, error, isOver }
}

const HEADERS = { 'content-type': 'text/plain', 'idempotency-key': 'k' }

// Red when a body that ends is taken for a whole one: the handler runs with an empty body, and its key is used.
test.each(Object.keys(LISTENERS))(
  '%s: runs nothing of a request over HTTP/2 that its client cancels before the body is read',
  async (framework) => {
    const { error, guard, handler, isOver } = setUp()
    const arrived = Promise.withResolvers<void>()
    let isFirst = true
    const listener = await LISTENERS[framework]?.(guard, async (response) => {
      if (!isFirst) return
      isFirst = false
      const closed = once(response, 'close')
      arrived.resolve()
      await closed
    })
    const session = connectHttp2(`http://127.0.0.1:${await listening(listener as Http2Listener)}`)
    opened.unshift(session)
    const post = () => session.request({ ':method': 'POST', ':path': '/charges', ...HEADERS })
    const cancelled = post().on('error', () => undefined)
    cancelled.write('cents=500')
    await arrived.promise
    cancelled.close(constants.NGHTTP2_CANCEL)
    await isOver()
    expect(handler).not.toHaveBeenCalled()
    expect(error).not.toHaveBeenCalled()
    const retry = post().end('cents=500')
    expect((await once(retry, 'response'))[0]).toMatchObject({ ':status': 200 })
    expect(handler.mock.calls[0]?.[0]).toMatchObject({ payload: 'cents=500' })
  },
)

/** A frame of HTTP/2 (RFC 9113 §4.1). */
function frame(type: number, flags: number, payload: Uint8Array, stream = 1): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.byteLength, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

const sized = (text: string): Buffer => Buffer.from(`${String.fromCharCode(text.length)}${text}`)

// As Envoy tells its upstream that a client is gone. Red when only a stream that closes before it ends is broken off.
test('the part of a body that came before a reset without an error does not run', async () => {
  const { guard, handler, isOver } = setUp()
  const listener = nodeListener(guard)
  const reading = Promise.withResolvers<void>()
  const port = await listening((request, response) => {
    listener(request, response)
    request.once('data', () => reading.resolve())
  })
  const proxy = connect(port, '127.0.0.1')
  opened.unshift({ close: () => proxy.destroy() })
  const pseudo = { ':method': 'POST', ':scheme': 'http', ':authority': 'x', ':path': '/charges' }
  const fields = Object.entries({ ...pseudo, ...HEADERS }).flatMap(([name, value]) => [
    ...[Buffer.from([0]), sized(name), sized(value)],
  ])
  proxy.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  proxy.write(frame(4, 0, Buffer.alloc(0), 0))
  proxy.write(frame(1, 4, Buffer.concat(fields)))
  proxy.write(frame(0, 0, Buffer.from('cents=5')))
  await reading.promise
  proxy.write(frame(3, 0, Buffer.alloc(4)))
  await isOver()
  expect(handler).not.toHaveBeenCalled()
})

test('a request that may be cut off runs if its body has its declared length', async () => {
  const { guard, handler } = setUp()
  const goneWith = (headers: Record<string, string>) => ({
    ...fromWebRequest(requestOf({ body: 'cents=500', headers })),
    ...{ isGone: () => true, mayBeCutOff: () => true },
  })
  const running = runningOf('test', guard)
  for (const length of ['10', 'x']) {
    const outcome = await running.handle(goneWith({ 'content-length': length }))
    expect(outcome).toEqual({ kind: 'threw', error: new Error('the client hung up') })
  }
  expect(handler).not.toHaveBeenCalled()
  expect(await running.handle(goneWith({ 'content-length': '9' }))).toMatchObject({ kind: 'reply' })
  expect(handler).toHaveBeenCalledOnce()
})

// Red when only `closed` of the response, which HTTP/2 does not have, tells that a client has hung up before.
test('a client that cancels over HTTP/2 while its tenant is asked for aborts the run, if asked', async () => {
  const wasAborted = vi.fn()
  const asked = Promise.withResolvers<void>()
  let closed: Promise<unknown> | undefined
  const guard = guardOf(
    async (_event, { signal }) => {
      await new Promise((resolve) => setImmediate(resolve))
      wasAborted(signal.aborted)
    },
    {
      onHangUp: 'abort',
      tenant: async () => {
        asked.resolve()
        await closed
        return 'a'
      },
    },
  )
  const listener = nodeListener(guard)
  const port = await listening((request, response) => {
    closed = once(response, 'close')
    listener(request, response)
  })
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  opened.unshift(guard, session)
  const stream = session.request({ ':method': 'POST', ':path': '/charges', ...HEADERS })
  stream.on('error', () => undefined).end()
  await asked.promise
  stream.close(constants.NGHTTP2_CANCEL)
  await vi.waitFor(() => expect(wasAborted.mock.calls).toEqual([[true]]))
})

// Red when the signal is asked as if every runtime gave one: Cloudflare's requests have none unless a flag is set.
test('a Web Request without a signal is taken', async () => {
  const { guard, handler } = setUp()
  const request = Object.defineProperty(requestOf(), 'signal', { value: undefined })
  expect((await guard.fetch(request)).status).toBe(200)
  expect(handler).toHaveBeenCalledOnce()
})
