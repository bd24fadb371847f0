import { IncomingMessage, type ServerResponse } from 'node:http'
import { connect, Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { listen } from '../fixtures/servers.ts'
import type { IncomingRequest } from '../request/request.ts'
import { fromIncomingMessage } from './incoming-message.ts'

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

// Red when a client of HTTP/1 that does not wait for its answer has no effect: Node fails for a body that is not whole.
test.each([
  [1, true, false],
  [2, true, true],
  [2, false, false],
])('under HTTP/%i, a body that has ended may be cut off if aborted is %s: %s', (...row) => {
  const [httpVersionMajor, aborted, mayBe] = row
  expect(incomingOf(messageOf({ httpVersionMajor, aborted })).mayBeCutOff()).toBe(mayBe)
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
