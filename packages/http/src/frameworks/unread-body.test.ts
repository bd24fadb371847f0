import { connect, type Socket } from 'node:net'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { guardOf } from '../fixtures/charges.ts'
import { listen, type Running, send } from '../fixtures/servers.ts'
import type { HttpGuard } from '../http-guard.ts'
import { fastifyRoute, rawBodies } from './fastify.ts'

const MOST_BYTES = 200_000

const handler = vi.fn(({ request }) => ({ body: String(request.bytes.byteLength) }))
const opened: { close(): Promise<void> }[] = []
beforeEach(() => void handler.mockClear())
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

function connected({ url }: Running): Socket {
  const { hostname, port } = new URL(url)
  return connect(Number(port), hostname).on('error', () => undefined)
}

describe('behind a parser of Fastify that leaves the body unread', () => {
  let app: FastifyInstance
  let guard: HttpGuard
  let server: Running
  const refused: [FastifyRequest, FastifyReply][] = []
  const slowHook = vi.fn(
    ({ raw }: FastifyRequest) => new Promise((resolve) => raw.once('close', resolve)),
  )

  beforeEach(async () => {
    guard = guardOf(handler, { decode: (bytes) => bytes.byteLength, maxBodyBytes: MOST_BYTES })
    app = fastify({ bodyLimit: 10_000_000 })
    // The catch-all of Fastify's documentation. @fastify/multipart has one of this kind.
    app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    await app.register(rawBodies)
    app.route({
      method: ['GET', 'POST'],
      url: '/charges',
      handler: fastifyRoute(guard),
      preHandler: async (request, reply) => {
        const { headers, method } = request
        if (headers['x-slow'] !== undefined) await slowHook(request)
        if (method !== 'POST' || headers['x-refused'] === undefined) return undefined
        refused.push([request, reply])
        return reply.code(401).send('')
      },
    })
    await app.ready()
    server = await listen((request, response) => app.routing(request, response))
    opened.push(server, guard)
  })

  const headers = { 'content-type': 'text/csv' }

  // Red when nobody listens to the error of a body that nobody reads yet: it ends the process.
  test('a client that hangs up while a hook before the guard waits runs nothing and does not end the process', async () => {
    const socket = connected(server)
    socket.write(
      'POST /charges HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nX-Slow: 1\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\nabc',
    )
    await vi.waitFor(() => expect(slowHook).toHaveBeenCalled())
    const closed = slowHook.mock.results[0]?.value
    socket.destroy()
    await closed
    await new Promise((resolve) => setImmediate(resolve))
    expect(handler).not.toHaveBeenCalled()
  })

  // Red when a body that nothing reads stays on its connection: the second request waits for ever.
  test.each([
    ['a hook before the route', 'POST', 401],
    ['the guard, which takes no GET,', 'GET', 405],
  ])(
    'a request that %s answers leaves its connection to the next one',
    async (_who, method, status) => {
      const socket = connected(server)
      let answers = ''
      socket.setEncoding('latin1').on('data', (text) => {
        answers += text
      })
      const ask = (asked: string, length: number) =>
        socket.write(
          `${asked} /charges HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nIdempotency-Key: k\r\nContent-Length: ${length}\r\n`,
        )
      ask(method, 500_000)
      socket.write(`X-Refused: 1\r\n\r\n${'a'.repeat(500_000)}`)
      ask('POST', 3)
      socket.write('\r\nabc')
      await vi.waitFor(() => expect(answers).toContain('200 OK'))
      expect(answers).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(handler).toHaveBeenCalledOnce()
      socket.destroy()
    },
  )
  // Red when a body is kept that is only taken off its connection: nobody has shown who sends it.
  test.each([1, MOST_BYTES])(
    'nothing is kept of the %i bytes of a request that a hook has answered',
    async (size) => {
      refused.length = 0
      const sent = { body: 'a'.repeat(size), headers: { ...headers, 'x-refused': '1' } }
      expect((await send(server, sent)).status).toBe(401)
      const [asked] = refused as [(typeof refused)[number]]
      await vi.waitFor(() => expect(asked[0].raw.readableEnded).toBe(true))
      await fastifyRoute(guard)(...asked)
      expect(handler).not.toHaveBeenCalled()
    },
  )
})
