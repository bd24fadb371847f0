import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemRuntime } from '@onceward/core/ports'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createSqsApi } from './clients/aws-sdk.ts'
import { classifyError } from './errors.ts'
import { Queues } from './fixtures/queues.ts'

/** Whatever stands between a client and SQS: it answers by itself. */
let proxy: Server
let queues: Queues
let answer: { readonly status: number; readonly body: string }

beforeAll(async () => {
  proxy = createServer((request, response) => {
    request.resume()
    response.writeHead(answer.status).end(answer.body)
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port } = proxy.address() as AddressInfo
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' }
  const endpoint = `http://127.0.0.1:${port}`
  queues = new Queues({ endpoint, region: 'us-east-1', credentials, maxAttempts: 1 })
})
afterAll(async () => {
  queues.client.destroy()
  proxy.closeAllConnections()
  await new Promise((resolve) => proxy.close(resolve))
})

const HTML = '<html>\n<h1>Unavailable</h1></html>'

// Red when only the client's words are told: they are `Unknown: UnknownError`, or two lines about JSON.
test.each([
  { status: 503, body: HTML, kind: 'network', text: /^SyntaxError: .+ \(HTTP 503\)$/ },
  { status: 502, body: '', kind: 'network', text: /^Unknown: UnknownError \(HTTP 502\)$/ },
  { status: 429, body: HTML, kind: 'throttled', text: /^SyntaxError: .+ \(HTTP 429\)$/ },
  { status: 403, body: '', kind: 'other', text: /^Unknown: UnknownError \(HTTP 403\)$/ },
  { status: 200, body: HTML, kind: 'other', text: /^SyntaxError: .+ \(HTTP 200\)$/ },
])(
  'a proxy that answers $status with “$body” is told by its status, in one line',
  async ({ kind, text, ...given }) => {
    answer = given
    const api = createSqsApi(queues.client, 'http://127.0.0.1/000000000000/orders', systemRuntime)
    const error: unknown = await api.remove(['h-1']).catch((reason: unknown) => reason)
    const told = classifyError(error)
    expect(told).toEqual({ kind, text: expect.stringMatching(text) })
    expect(told.text).not.toMatch(/[\r\n]/)
  },
)

test('an error that SQS names is told by its name, whatever the status', async () => {
  answer = {
    status: 503,
    body: '{"__type":"com.amazonaws.sqs#KmsAccessDenied","message":"no\\nkey"}',
  }
  const api = createSqsApi(queues.client, 'http://127.0.0.1/000000000000/orders', systemRuntime)
  const error: unknown = await api.remove(['h-1']).catch((reason: unknown) => reason)
  expect(classifyError(error)).toEqual({ kind: 'denied', text: 'KmsAccessDenied: no key' })
})

// The client believes it: `md5: false` leaves out its own check.
test('a dead letter that is answered by an empty 200 is not taken for sent', async () => {
  answer = { status: 200, body: '' }
  const client = queues.another({ md5: false })
  const api = createSqsApi(client, 'http://127.0.0.1/000000000000/dead', systemRuntime)
  const sending = api.send({ QueueUrl: 'http://127.0.0.1/000000000000/dead', MessageBody: '{}' })
  await expect(sending).rejects.toThrow('without a MessageId')
  client.destroy()
})
