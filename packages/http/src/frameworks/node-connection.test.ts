import { once } from 'node:events'
import { IncomingMessage, type ServerResponse } from 'node:http'
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, connect, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { until } from '@onceward/testing'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { HttpReply } from '../answer/reply.ts'
import { listen } from '../fixtures/servers.ts'
import { BodyTooLargeError, type IncomingRequest } from '../request/request.ts'
import { fromIncomingMessage, writeReply } from './incoming-message.ts'

const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

interface Arrived {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly incoming: IncomingRequest
  /** The client's end of the connection. */
  readonly client: Socket
}

/** A request whose headers have arrived at a real server, and as much of its body as is given. */
async function arrived(body = '', contentLength = body.length): Promise<Arrived> {
  const arriving = Promise.withResolvers<Omit<Arrived, 'incoming' | 'client'>>()
  const server = await listen((request, response) => arriving.resolve({ request, response }))
  opened.push(server)
  const { hostname, port } = new URL(server.url)
  const client = connect(Number(port), hostname).on('error', () => undefined)
  client.write(
    `POST /charges HTTP/1.1\r\nHost: shop.example:81\r\nConnection: close\r\nContent-Length: ${contentLength}\r\n\r\n${body}`,
  )
  const { request, response } = await arriving.promise
  return { request, response, client, incoming: incomingOf(request, response) }
}

const incomingOf = (
  request: IncomingMessage,
  response?: ServerResponse,
  target = request.url ?? '/',
): IncomingRequest =>
  fromIncomingMessage(request, {
    ...{ original: request, target },
    response: response as ServerResponse,
  })

/** A message that no server has made. */
const messageOf = (parts: Partial<IncomingMessage>): IncomingMessage =>
  Object.assign(new IncomingMessage(new Socket()), parts)

const HUNG_UP = 'the client hung up'

describe('a client', () => {
  test('that waits for its answer is there, and so is one that got it', async () => {
    const { client, incoming, response } = await arrived('abc')
    const signal = incoming.hangUp()
    await incoming.readBytes(10)
    expect([incoming.isGone(), signal.aborted]).toEqual([false, false])
    response.end('charged')
    expect(await text(client)).toContain('charged')
    await until(() => response.closed)
    expect([incoming.isGone(), signal.aborted]).toEqual([false, false])
  })

  test('that hangs up before its answer is gone', async () => {
    const { client, incoming, response } = await arrived('abc')
    const signal = incoming.hangUp()
    await incoming.readBytes(10)
    client.destroy()
    await once(response, 'close')
    expect([incoming.isGone(), signal.aborted]).toEqual([true, true])
    expect(signal.reason).toEqual(new Error(HUNG_UP))
    expect(incoming.hangUp().aborted).toBe(true)
  })

  test('that hangs up within its body is gone, and the reading fails as the connection did', async () => {
    const { client, incoming } = await arrived('abc', 100)
    const reading = expect(incoming.readBytes(1_000)).rejects.toMatchObject({ code: 'ECONNRESET' })
    client.destroy()
    await reading
    expect(incoming.isGone()).toBe(true)
  })

  test('whose body came only in part before the guard read it has hung up', async () => {
    const { client, incoming, request } = await arrived('abc', 100)
    client.destroy()
    await until(() => request.destroyed)
    await expect(incoming.readBytes(1_000)).rejects.toThrow(HUNG_UP)
  })

  test('whose connection a middleware ends within the body has hung up', async () => {
    const { incoming, request } = await arrived('abc', 100)
    const reading = expect(incoming.readBytes(1_000)).rejects.toThrow(HUNG_UP)
    request.destroy()
    await reading
  })
})

// Red when a client of HTTP/1 that does not wait for its answer has no effect: Node fails for a body that is not whole.
test.each([
  [1, true, false],
  [2, true, true],
  [2, false, false],
])('under HTTP/%i, a body that has ended may be cut off if aborted is %s: %s', (...row) => {
  const [httpVersionMajor, aborted, mayBe] = row
  expect(incomingOf(messageOf({ httpVersionMajor, aborted })).mayBeCutOff()).toBe(mayBe)
})

describe('a body', () => {
  test('whose length is declared as too large is refused before it comes, and taken off the connection', async () => {
    const { client, incoming, request } = await arrived('', 20)
    await expect(incoming.readBytes(19)).rejects.toThrow(BodyTooLargeError)
    const ended = once(request, 'end')
    client.write('a'.repeat(20))
    await ended
  })

  test('may have as many bytes as the limit, and leaves no listener', async () => {
    const { incoming, request } = await arrived('a'.repeat(20))
    expect(await incoming.readBytes(20)).toHaveLength(20)
    expect(request.listenerCount('data')).toBe(0)
  })

  test('that turns out too large is taken off the connection, although a middleware pauses it', async () => {
    const { incoming, request } = await arrived('a'.repeat(20))
    delete request.headers['content-length']
    request.prependListener('data', () => request.pause())
    const ended = once(request, 'end')
    await expect(incoming.readBytes(19)).rejects.toThrow(BodyTooLargeError)
    await ended
  })
})

describe('the target of a request', () => {
  test.each([
    ['/charges?a=1', '/charges?a=1'],
    ['charges', '/charges'],
    ['https://x/charges?a=1', '/charges?a=1'],
    ['HTTP://x', '/'],
    ['http://[', '/http://['],
    ['mailto:a', '/mailto:a'],
    ['x:http://y', '/x:http://y'],
  ])('%s is %s', (given, target) => {
    const request = messageOf({ method: 'POST' })
    expect(incomingOf(request, undefined, given).target).toBe(target)
  })

  test('has the host and the port that the client sent', async () => {
    const { incoming } = await arrived()
    expect(incoming.withBytes(new Uint8Array()).url).toBe('http://shop.example:81/charges')
  })
})

test('the URL of a request over TLS says so', () => {
  const request = new IncomingMessage({ encrypted: true } as unknown as Socket)
  request.headers.host = 'shop.example'
  const { url } = incomingOf(request).withBytes(new Uint8Array())
  expect(url).toBe('https://shop.example/')
})

test('a header that an adapter gives as a list has each of its values, and one without a value none', () => {
  const headers = { 'x-list': ['a', 'b'], 'x-none': undefined, 'x-one': 'c' }
  const { valuesOf } = incomingOf(messageOf({ headers: headers as never }))
  expect([valuesOf('x-list'), valuesOf('x-none'), valuesOf('x-one')]).toEqual([
    ['a', 'b'],
    [],
    ['c'],
  ])
})

test('the headers of HTTP/2 come without its pseudo-headers, which the URL is made of', async () => {
  const server = createHttp2Server((request, response) => {
    const { headers, url } = incomingOf(request as never).withBytes(new Uint8Array())
    response.end(JSON.stringify([url, ...headers]))
  })
  await once(server.listen(0), 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = connectHttp2(origin)
  const answer = await text(client.request({ ':path': '/', 'x-trace': 'a' }))
  expect(JSON.parse(answer)).toEqual([`${origin}/`, ['x-trace', 'a']])
  client.close()
  await new Promise((resolve) => server.close(resolve))
})

describe('an answer', () => {
  const reply = (parts: Partial<HttpReply> = {}): HttpReply => ({
    ...{ status: 201, headers: [], body: 'charged' },
    ...parts,
  })

  test('replaces headers that a middleware has set, but its cookies stay', async () => {
    const { client, response } = await arrived()
    response.setHeader('cache-control', 'public').setHeader('set-cookie', 'a=1')
    const headers = [
      ['cache-control', 'no-store'],
      ['set-cookie', 'b=2'],
      ['set-cookie', 'c=3'],
    ] as const
    expect(writeReply(response, reply({ headers }))).toBe(true)
    const answer = await text(client)
    expect(answer).toMatch(/^HTTP\/1.1 201 /)
    expect(answer.match(/^cache-control:.*$/gim)).toEqual(['cache-control: no-store'])
    expect(answer.match(/^set-cookie:.*$/gim)).toHaveLength(3)
    expect(answer).toMatch(/content-length: 7\r\n.*\r\n\r\ncharged$/is)
  })

  test('of a status without a body has neither a body nor a length', async () => {
    const { client, response } = await arrived()
    expect(writeReply(response, reply({ status: 204, body: '' }))).toBe(true)
    const answer = await text(client)
    expect(answer).toMatch(/^HTTP\/1.1 204 /)
    expect(answer).not.toMatch(/content-length/i)
  })

  test('with Latin-1 in a header has its length, and ends', async () => {
    const { client, response } = await arrived()
    expect(writeReply(response, reply({ headers: [['x-name', 'Zoë']] }))).toBe(true)
    const answer = await text(client.setEncoding('latin1'))
    expect(answer).toMatch(/x-name: Zoë\r\n/)
    expect(answer).toMatch(/content-length: 7\r\n.*\r\n\r\ncharged$/is)
  })

  test('that something else has begun is left alone, and that is told', async () => {
    const { client, response } = await arrived()
    response.write('other')
    expect(writeReply(response, reply())).toBe(false)
    response.end()
    expect(await text(client)).not.toContain('charged')
  })

  test('to a client that is gone is not written', async () => {
    const { client, response } = await arrived()
    client.destroy()
    await once(response, 'close')
    const end = vi.spyOn(response, 'end')
    expect(writeReply(response, reply())).toBe(true)
    expect(end).not.toHaveBeenCalled()
  })
})
