import { connect } from 'node:net'
import { Duplex, type Readable } from 'node:stream'
import { type FastifyReply, fastify, type preParsingHookHandler } from 'fastify'
import { afterEach, expect, test, vi } from 'vitest'
import { guardOf } from '../fixtures/charges.ts'
import { listen, send } from '../fixtures/servers.ts'
import { fastifyRoute, rawBodies } from './fastify.ts'

const handler = vi.fn(({ request }) => ({ body: String(request.bytes.byteLength) }))
const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

/** A server whose parser leaves the body to the guard. `before` runs between the two. */
async function served(
  before: (body: Readable, reply: FastifyReply) => Promise<void> | void,
  preParsing: preParsingHookHandler[] = [],
) {
  handler.mockClear()
  const guard = guardOf(handler, { decode: (bytes) => bytes.byteLength })
  const app = fastify()
  let body: Readable
  app.addContentTypeParser('*', (_request, payload, done) => {
    body = payload
    done(null)
  })
  await app.register(rawBodies)
  app.route({
    ...{ method: 'POST', url: '/charges', preParsing, handler: fastifyRoute(guard) },
    preHandler: async (_request, reply) => before(body, reply),
  })
  await app.ready()
  const server = await listen((request, response) => app.routing(request, response))
  opened.push(server, guard)
  return { guard, server }
}

// Red when the guard waits for the end of what is written to such a stream: nobody writes.
test('a body may come from a stream of a hook that is closed as soon as it has ended', async () => {
  const pieces = [Buffer.alloc(50_000, 'a'), Buffer.alloc(50_000, 'a'), null]
  const changed = Object.assign(
    new Duplex({
      read() {
        this.push(pieces.shift())
      },
    }),
    { receivedEncodedLength: 3 },
  )
  changed.once('end', () => changed.destroy())
  const closed = new Promise<void>((resolve) => changed.once('close', () => resolve()))
  const { server } = await served(
    () => closed,
    [(_request, _reply, _payload, done) => done(null, changed)],
  )
  const answer = await send(server, { body: 'abc', headers: { 'content-type': 'text/csv' } })
  expect(answer).toMatchObject({ status: 200, text: '100000' })
})

// Red when the answer of a middleware that limits the time takes from the guard what it is reading.
test('a body that is answered by something else while the guard reads it is whole', async () => {
  const asked = Promise.withResolvers<readonly [Readable, FastifyReply]>()
  const { guard, server } = await served((...given) => asked.resolve(given))
  const { hostname, port } = new URL(server.url)
  const client = connect(Number(port), hostname).on('error', () => undefined)
  client.write(
    'POST /charges HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nIdempotency-Key: k\r\nContent-Length: 6\r\n\r\nabc',
  )
  const [body, reply] = await asked.promise
  await vi.waitFor(() => expect(body.readableDidRead).toBe(true))
  await new Promise<void>((resolve) => reply.raw.end('too slow', resolve))
  client.write('def')
  await vi.waitFor(() => expect(handler).toHaveBeenCalledOnce())
  await vi.waitFor(() => expect(guard.health().inFlight).toBe(0))
  client.destroy()
})
