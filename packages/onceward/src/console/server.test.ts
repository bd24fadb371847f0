import { once } from 'node:events'
import { type IncomingHttpHeaders, request, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { LOOPBACK } from './access.ts'
import type { Question } from './api.ts'
import { createConsole } from './server.ts'

// Red before: the error event had no listener, so it ended the process.
test('a connection that the system cannot accept ends nothing', () => {
  const access = {
    ...{ token: undefined, hosts: new Set<string>() },
    ...{ acceptsAddresses: false, allowsChanges: false },
  }
  const { server } = createConsole({ answer: async () => undefined }, access)
  // What Node does then: https://github.com/nodejs/node/blob/v24.0.0/lib/net.js, onconnection
  const error = Object.assign(new Error('accept ENOMEM'), { code: 'ENOMEM', syscall: 'accept' })
  expect(server.emit('error', error)).toBe(true)
})

let server: Server
let port: number
let answer: (question: Question) => Promise<unknown>
const asked: Question[] = []

beforeAll(async () => {
  const api = {
    answer: async (question: Question) => {
      asked.push(question)
      return answer(question)
    },
  }
  const access = { token: 'right', hosts: LOOPBACK, acceptsAddresses: false, allowsChanges: true }
  server = createConsole(api, access).server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = (server.address() as AddressInfo).port
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})
beforeEach(() => {
  asked.length = 0
  answer = async () => ({ fine: true })
})

interface Answered {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

async function send(path: string, { body, headers, method }: Sent = {}): Promise<Answered> {
  const to = { host: '127.0.0.1', port, path, method, headers, agent: false }
  const sending = request(to)
  sending.on('error', () => undefined)
  sending.end(body)
  const [response] = await once(sending, 'response')
  return { status: response.statusCode, headers: response.headers, text: await text(response) }
}

const ask = (name: string) => send(`/api/${name}`, { headers: { authorization: 'Bearer right' } })
const post = (body: string) => {
  const own = { authorization: 'Bearer right', origin: `http://127.0.0.1:${port}` }
  const headers = { ...own, 'content-type': 'application/json' }
  return send('/api/replay', { method: 'POST', headers, body })
}

describe('a question', () => {
  test('has characters that hide text shown, in names and texts', async () => {
    answer = async () => ({ 'a\u202e': ['b\u0000'] })
    const { text: body } = await ask('status')
    expect(JSON.parse(body)).toEqual({ 'a\\u{202e}': ['b\\u{0}'] })
  })

  test.each(['', '{', 'ids'])('whose body is %j is refused', async (body) => {
    expect(await post(body)).toMatchObject({ status: 400, text: '{"error":"Send JSON."}' })
    expect(asked).toEqual([])
  })

  test('may have a megabyte, and not more', async () => {
    const most = JSON.stringify('x'.repeat(1_048_574))
    expect((await post(most)).status).toBe(200)
    expect(await post(`${most} `)).toMatchObject({
      ...{ status: 413, text: '{"error":"The request is too large."}' },
      headers: { connection: 'close' },
    })
    expect(asked).toHaveLength(1)
  })
})

describe('on one connection', () => {
  /** Writes, and answers what came back until the server closes the connection or `until` has come. */
  async function raw(parts: readonly string[], until: RegExp): Promise<string> {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => undefined)
    let got = ''
    for (const part of parts) socket.write(part)
    await new Promise<void>((resolve) => {
      socket.on('close', () => resolve())
      socket.on('data', (chunk) => {
        got += String(chunk)
        if (until.test(got)) resolve()
      })
    })
    socket.destroy()
    return got
  }
  const GET = 'GET /none HTTP/1.1\r\nhost: localhost\r\n\r\n'

  test('a request that was read whole may be refused, and another one follows', async () => {
    const got = await raw([GET, GET], /404[\s\S]*404/)
    expect(got).not.toMatch(/connection: close/i)
  })

  // Otherwise the rest of its body would be taken for a new request.
  test('a request that is refused before its end is the last one', async () => {
    const own = `authorization: Bearer right\r\norigin: http://localhost\r\nhost: localhost\r\n`
    const head = `POST /api/replay HTTP/1.1\r\n${own}content-type: application/json\r\n`
    const body = 'x'.repeat(1_048_577)
    const got = await raw([`${head}content-length: 9999999\r\n\r\n`, body], /\r\n\r\n/)
    expect(got).toMatch(/^HTTP\/1\.1 413/)
    expect(got).toMatch(/connection: close/i)
  })

  test.each(['http://[', '*', '//[::1'])(
    'a target that is no address, %s, is no page',
    async (to) => {
      const got = await raw([`GET ${to} HTTP/1.1\r\nhost: localhost\r\n\r\n`], /no such page/)
      expect(got).toMatch(/^HTTP\/1\.1 404/)
    },
  )
})

test('an answer that cannot be written ends nothing', async () => {
  let heard: unknown
  server.once('request', (_, response) => {
    try {
      heard = response.emit('error', new Error('write EPIPE'))
    } catch (error) {
      heard = error
    }
  })
  await ask('status')
  expect(heard).toBe(true)
})

test('a request whose body breaks off is not answered as if it were whole', async () => {
  let heard: unknown
  server.once('request', (asking) => {
    try {
      heard = asking.emit('error', new Error('aborted'))
    } catch (error) {
      heard = error
    }
  })
  expect(await post('{}')).toMatchObject({ status: 503, text: '{"error":"aborted"}' })
  expect(heard).toBe(true)
  expect(asked).toEqual([])
})
