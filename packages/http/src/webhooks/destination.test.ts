import type { OutgoingMessage } from '@onceward/core'
import { expect, test } from 'vitest'
import { webhookDestination } from './destination.ts'
import { standardWebhook } from './signatures.ts'

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
const url = 'https://example.com/hooks'
const signal = new AbortController().signal
const outgoing = (over: Partial<OutgoingMessage> = {}): OutgoingMessage => ({
  ...{ id: 'm-1', source: 'billing', type: 'paid', headers: { trace: 't' } },
  ...{ contentType: 'application/json', payload: Buffer.from('{"ä":1}') },
  ...over,
})

test('a message is a POST that our own verifier accepts, and the attributes of CloudEvents are with it', async () => {
  const requests: Request[] = []
  const fetch = async (to: unknown, init?: RequestInit): Promise<Response> => {
    requests.push(new Request(to as string, init))
    return new Response('ok')
  }
  const { publish } = webhookDestination({ url, secret, fetch })
  expect(await publish([outgoing()], signal)).toEqual([undefined])
  const [request] = requests
  const bytes = new Uint8Array((await request?.arrayBuffer()) ?? [])
  expect(Buffer.from(bytes).toString()).toBe('{"ä":1}')
  const headers = request?.headers ?? new Headers()
  const verdict = await standardWebhook(secret)({ headers, bytes }, Date.now())
  expect(verdict).toEqual({ kind: 'verified', eventId: 'm-1' })
  expect(Object.fromEntries(headers)).toMatchObject({
    ...{ 'ce-id': 'm-1', 'ce-source': 'billing', 'ce-type': 'paid', 'idempotency-key': 'm-1' },
    ...{ 'content-type': 'application/json', trace: 't' },
  })
})

test.each([
  [204, undefined],
  [302, 'down'],
  [400, 'refused'],
  [401, 'down'],
  [403, 'down'],
  [404, 'down'],
  [410, 'down'],
  [422, 'refused'],
  [408, 'unknown'],
  [429, 'unknown'],
  [500, 'unknown'],
  [503, 'unknown'],
])('the answer %i means %s', async (status, expected) => {
  const fetch = async (): Promise<Response> => new Response(null, { status })
  const [answer] = await webhookDestination({ url, secret, fetch }).publish([outgoing()], signal)
  expect(Object.keys(answer ?? {})[0]).toBe(expected)
})

test('a header that HTTP cannot carry is refused, and nothing is sent', async () => {
  const fetch = async (): Promise<Response> => {
    throw new Error('sent')
  }
  const { publish } = webhookDestination({ url, secret, fetch })
  for (const headers of [{ a: '😀' }, { Host: 'evil' }, { 'Content-Length': '1' }]) {
    const [answer] = await publish([outgoing({ headers })], signal)
    expect(answer).toEqual({ refused: expect.any(Error) })
  }
})

test('a server that cannot be reached confirms nothing', async () => {
  const fetch = async (): Promise<Response> => {
    throw new TypeError('fetch failed')
  }
  const { publish } = webhookDestination({ url, secret, fetch })
  await expect(publish([outgoing()], signal)).rejects.toThrow('fetch failed')
})

test.each([
  [{ url: 'ftp://example.com', secret }],
  [{ url: '', secret }],
  [{ url, secret: 'short' }],
  [{ url, secret: '' }],
])('refuses options that cannot work, and shows no secret', (options) => {
  expect(() => webhookDestination(options)).toThrow(
    expect.objectContaining({ code: 'ONCEWARD_CONFIGURATION' }),
  )
})
