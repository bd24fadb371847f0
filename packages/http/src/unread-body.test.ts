import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type FastifyInstance, fastify } from 'fastify'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { fastifyRoute, rawBodies } from './fastify.ts'
import { guardOf } from './fixtures/charges.ts'
import { listen, type Running, send } from './fixtures/servers.ts'
import type { HttpGuard } from './http-guard.ts'

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

  beforeEach(async () => {
    guard = guardOf(handler, { decode: (bytes) => bytes.byteLength, maxBodyBytes: MOST_BYTES })
    app = fastify({ bodyLimit: 10_000_000 })
    // The catch-all of Fastify's documentation. @fastify/multipart has one of this kind.
    app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    await app.register(rawBodies)
    app.post('/charges', fastifyRoute(guard))
    await app.ready()
    server = await listen((request, response) => app.routing(request, response))
    opened.push(server, guard)
  })

  const headers = { 'content-type': 'text/csv' }

  test.each([0, 1, 20_000, MOST_BYTES])('the guard reads %i bytes itself', async (size) => {
    const answer = await send(server, { key: 'k', body: 'a'.repeat(size), headers })
    expect(answer).toMatchObject({ status: 200, text: String(size) })
    expect((await send(server, { key: 'k', body: 'b'.repeat(size + 1), headers })).status).toBe(
      size === MOST_BYTES ? 413 : 422,
    )
  })

  test('a longer body is answered 413 and not read to its end', async () => {
    const socket = connected(server)
    socket.write(
      'POST /charges HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n',
    )
    const answered = once(socket, 'data')
    const chunk = `10000\r\n${'a'.repeat(65_536)}\r\n`
    for (let sent = 0; sent <= MOST_BYTES; sent += 65_536) socket.write(chunk)
    expect(String(await answered)).toContain('HTTP/1.1 413')
    socket.destroy()
    expect(handler).not.toHaveBeenCalled()
  })

  test('a client that hangs up half-way runs nothing and does not end the process', async () => {
    const socket = connected(server)
    socket.write(
      'POST /charges HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\nabc',
    )
    await vi.waitFor(() => expect(guard.health().inFlight).toBe(1))
    socket.destroy()
    await vi.waitFor(() => expect(guard.health().inFlight).toBe(0))
    expect(handler).not.toHaveBeenCalled()
  })
})
