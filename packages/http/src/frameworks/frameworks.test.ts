import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { guardOf, kindOf, requestOf, shown } from '../fixtures/charges.ts'
import { FRAMEWORKS, type Framework, type Running, send, serve } from '../fixtures/servers.ts'
import { expressRoute } from './express.ts'
import { fastifyRoute } from './fastify.ts'
import { honoRoute } from './hono.ts'
import { nodeListener } from './node.ts'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

type Given = Parameters<typeof guardOf>

async function start(framework: Framework, ...given: Given): Promise<Running> {
  const guard = guardOf(...given)
  const server = await serve(framework, guard)
  opened.push(server, guard)
  return server
}

/** What the server answers to a text on the wire, until it ends the connection. */
async function sendRaw({ url }: Running, request: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write(request)
  return text(socket)
}

describe.each(FRAMEWORKS)('%s', (framework) => {
  test('answers first requests and retries with the same bytes', async () => {
    const handler = vi.fn(() => ({
      status: 201,
      headers: { location: '/charges/1', 'set-cookie': ['a=1', 'b=2'] },
      body: new Uint8Array([0, 255, 10, 13]),
    }))
    const server = await start(framework, handler)
    const response = await fetch(requestOf({ key: 'k' }, server.url))
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    const first = await shown(response)
    const retry = await send(server, { key: 'k' })
    expect(first).toMatchObject({ status: 201, headers: { location: '/charges/1' } })
    expect(retry).toMatchObject({ status: 201, sha256: first.sha256 })
    expect(retry.headers).toEqual({
      'content-type': 'application/octet-stream',
      location: '/charges/1',
      'idempotency-replayed': 'true',
    })
    expect(handler).toHaveBeenCalledTimes(1)
  })

  test('answers the same bytes of a header in Latin-1, beside a text and beside bytes', async () => {
    const disposition = 'attachment; filename="Grüße.txt"'
    for (const body of ['Grüße', Buffer.from('Grüße')]) {
      const headers = { 'content-disposition': disposition, 'content-type': 'text/plain' }
      const server = await start(framework, () => ({ headers, body }))
      for (let retry = 0; retry < 2; retry++) {
        const response = await fetch(requestOf({ key: 'k' }, server.url))
        expect(response.headers.get('content-disposition')).toBe(disposition)
        expect(await response.text()).toBe('Grüße')
      }
    }
  })

  test('answers nothing with 204, also again', async () => {
    const server = await start(framework, () => undefined)
    for (let retry = 0; retry < 2; retry++) {
      expect(await send(server, { key: 'k' })).toMatchObject({ status: 204, text: '' })
    }
  })

  test('counts path and query to what a key was used for', async () => {
    const server = await start(framework, ({ request }) => ({
      body: new URL(request.url).pathname,
    }))
    expect((await send(server, { key: 'k', path: '/charges/1/refund?now=1' })).text).toBe(
      '/charges/1/refund',
    )
    expect((await send(server, { key: 'k', path: '/charges/2/refund?now=1' })).status).toBe(422)
  })

  test('refuses a key that comes twice, also with equal values', async () => {
    const handler = vi.fn(() => undefined)
    const server = await start(framework, handler)
    for (const [one, two] of [
      ['a', 'b'],
      ['a', 'a'],
      ['"a', 'b"'],
    ]) {
      const answer = await sendRaw(
        server,
        `POST /charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\nIdempotency-Key: ${one}\r\nIdempotency-Key: ${two}\r\n\r\n`,
      )
      // A Web Request shows joined values, and these two make one sf-string.
      const isJoined = one === '"a' && (framework === 'hono' || framework === 'fetch')
      expect(answer).toContain(isJoined ? 'HTTP/1.1 204' : 'HTTP/1.1 400')
    }
  })

  test('answers 413 to a body that is too large, with a declared length and without', async () => {
    const handler = vi.fn(() => undefined)
    const server = await start(framework, handler, { maxBodyBytes: 1_000 })
    const body = `"${'a'.repeat(1_000)}"`
    expect((await send(server, { body })).status).toBe(413)
    const chunked = await sendRaw(
      server,
      `POST /charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n3ea\r\n${body}\r\n0\r\n\r\n`,
    )
    expect(chunked).toContain('HTTP/1.1 413')
    expect(handler).not.toHaveBeenCalled()
    expect((await send(server, { body: `"${'a'.repeat(998)}"` })).status).toBe(204)
  })

  // Red when a server waits for a body that it will refuse.
  test('answers 413 to a declared length that is too large, before a byte of the body has come', async () => {
    const handler = vi.fn(() => undefined)
    const server = await start(framework, handler, { maxBodyBytes: 1_000 })
    const answer = await sendRaw(
      server,
      'POST /charges HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\nContent-Length: 100000000\r\n\r\n',
    )
    expect(answer).toContain('HTTP/1.1 413')
    expect(answer).toMatch(/connection: close/i)
    expect(handler).not.toHaveBeenCalled()
  })

  // Express takes 'route' and null for a sign to go on to the next route.
  test.each([new Error('card network down'), 'route', null])(
    'answers 500 to a handler that throws %o, and the key is free',
    async (thrown) => {
      let runs = 0
      const server = await start(framework, () => {
        runs += 1
        if (runs === 1) throw thrown
        return { body: { runs } }
      })
      expect((await send(server, { key: 'k' })).status).toBe(500)
      expect((await send(server, { key: 'k' })).text).toBe('{"runs":2}')
    },
  )

  test('answers a safe method with 405', async () => {
    const server = await start(framework, () => undefined)
    const answer = await send(server, { method: 'GET' })
    expect([answer.status, kindOf(answer)]).toEqual([405, 'method-not-allowed'])
    expect(answer.headers['allow']).toContain('POST')
  })

  test.each([
    ['finishes', undefined, false],
    ['aborts, if asked,', 'abort', true],
  ] as const)('%s the run of a client that hangs up', async (_what, onHangUp, aborts) => {
    const started = Promise.withResolvers<AbortSignal>()
    const gate = Promise.withResolvers<void>()
    const server = await start(
      framework,
      async (_event, { signal }) => {
        started.resolve(signal)
        await gate.promise
        signal.throwIfAborted()
        return { body: 'charged' }
      },
      { onHangUp, claimWaitMs: 5_000 },
    )
    const client = new AbortController()
    const hung = fetch(requestOf({ key: 'k' }, server.url), { signal: client.signal })
    const signal = await started.promise
    client.abort()
    await expect(hung).rejects.toThrow()
    if (aborts) await vi.waitFor(() => expect(signal.aborted).toBe(true))
    gate.resolve()
    const retry = await send(server, { key: 'k' })
    expect(retry.text).toBe('charged')
    expect(retry.headers['idempotency-replayed']).toBe(aborts ? undefined : 'true')
  })

  test.each(['trailer', 'te', 'upgrade', 'connection', 'content-length', 'expect', '__proto__'])(
    'answers although the handler sets the header %s',
    async (name) => {
      const server = await start(framework, () => ({
        headers: Object.fromEntries([[name, 'x']]),
        body: 'charged',
      }))
      for (let retry = 0; retry < 2; retry++) {
        expect(await send(server, { key: 'k' })).toMatchObject({ status: 200, text: 'charged' })
      }
    },
  )

  test('refuses a value that is not a guard', async () => {
    const make = {
      express: expressRoute,
      fastify: fastifyRoute,
      hono: honoRoute,
      node: nodeListener,
    }
    if (framework === 'fetch') return
    expect(() => make[framework]({} as never)).toThrow(/expected a guard made by createHttpGuard/)
  })
})
