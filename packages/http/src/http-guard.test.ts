import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import {
  guardOf,
  kindOf,
  requestOf,
  type Sent,
  type Shown,
  shown,
  silent,
} from './fixtures/charges.ts'
import { type HttpGuard, runningOf } from './http-guard.ts'

const send = async (guard: HttpGuard, sent: Sent = {}): Promise<Shown> =>
  shown(await guard.fetch(requestOf(sent)))

const charged = () => ({
  status: 201,
  headers: { location: '/charges/1', 'set-cookie': 'session=1', 'x-trace': 'abc' },
  body: { chargeId: 1 },
})

describe('a route', () => {
  test('runs for the first request of a key, and retries get the same answer without cookies', async () => {
    const handler = vi.fn(charged)
    const guard = guardOf(handler)
    const first = await send(guard, { key: 'k' })
    expect(first).toMatchObject({ status: 201, text: '{"chargeId":1}' })
    expect(first.headers).toEqual({
      'content-type': 'application/json; charset=utf-8',
      location: '/charges/1',
      'set-cookie': 'session=1',
      'x-trace': 'abc',
    })
    for (const key of ['k', '"k"']) {
      const retry = await send(guard, { key })
      expect(retry.sha256).toBe(first.sha256)
      expect(retry.headers).toEqual({
        'content-type': 'application/json; charset=utf-8',
        location: '/charges/1',
        'idempotency-replayed': 'true',
      })
    }
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('stores the headers that the user lists', async () => {
    const guard = guardOf(charged, { storedHeaders: ['X-Trace'] })
    await send(guard, { key: 'k' })
    expect((await send(guard, { key: 'k' })).headers).toMatchObject({ 'x-trace': 'abc' })
    await guard.close()
  })

  test('gives the handler the payload, the request and an identity of its own', async () => {
    const seen: unknown[] = []
    const guard = guardOf(({ idempotencyKey, key, payload, request }) => {
      const { bytes, headers, method, original, url } = request
      const isOriginal = original instanceof Request
      seen.push({ key, payload, method, url, isOriginal, text: Buffer.from(bytes).toString() })
      seen.push(headers.get('x-a'), idempotencyKey)
    })
    await send(guard, { key: '"a b"', path: '/charges?x=1', headers: { 'x-a': '1' } })
    const url = 'http://localhost/charges?x=1'
    expect(seen).toEqual([
      {
        key: 'a b',
        payload: { cents: 500 },
        method: 'POST',
        url,
        isOriginal: true,
        text: '{"cents":500}',
      },
      '1',
      expect.stringMatching(/^[0-9a-f-]{36}$/),
    ])
    await guard.close()
  })

  test.each([
    ['another body', { body: '{"cents":501}' }],
    ['another path', { path: '/charges/2' }],
    ['another query', { path: '/charges?dry=1' }],
    ['another method', { method: 'PUT' }],
    [
      'a number that differs beyond what JavaScript holds',
      { body: '{"cents":500.00000000000000001}' },
    ],
  ])('answers 422 for a used key with %s', async (_what, other: Sent) => {
    const handler = vi.fn(charged)
    const guard = guardOf(handler)
    await send(guard, { key: 'k' })
    const answer = await send(guard, { key: 'k', ...other })
    expect([answer.status, kindOf(answer)]).toEqual([422, 'key-reused'])
    expect(handler).toHaveBeenCalledTimes(1)
    expect(await send(guard, { key: 'k' })).toMatchObject({ status: 201 })
    await guard.close()
  })

  test('takes a body that is written in another way for the same', async () => {
    const guard = guardOf(charged)
    await send(guard, { key: 'k', body: '{"a":1,"b":[1.0]}' })
    const retry = await send(guard, { key: 'k', body: ' {"b":[1],\n"a":1}' })
    expect(retry.headers['idempotency-replayed']).toBe('true')
    await guard.close()
  })

  test('compares the bytes that came, also if decode changes them in place', async () => {
    const guard = guardOf(() => ({ status: 201 }), {
      decode: (bytes) => bytes.reverse().fill(0).byteLength,
    })
    expect((await send(guard, { key: 'k', body: 'one' })).status).toBe(201)
    expect((await send(guard, { key: 'k', body: 'one' })).status).toBe(201)
    expect((await send(guard, { key: 'k', body: 'two' })).status).toBe(422)
    await guard.close()
  })

  const centsOf = (payload: unknown): unknown => (payload as { readonly cents: number }).cents
  // Red before: a promise has no JSON, so that every body was the same, and got the first one's answer.
  test.each<readonly [string, (payload: unknown) => unknown]>([
    ['at once', centsOf],
    ['later', async (payload) => centsOf(payload)],
  ])('compares what a function of the user says counts, %s', async (_, fingerprint) => {
    const schema = z.object({ cents: z.number(), sentAt: z.number() })
    const guard = guardOf(charged, { fingerprint, schema })
    await send(guard, { key: 'k', body: '{"cents":1,"sentAt":1}' })
    expect((await send(guard, { key: 'k', body: '{"cents":1,"sentAt":2}' })).status).toBe(201)
    expect((await send(guard, { key: 'k', body: '{"cents":2,"sentAt":2}' })).status).toBe(422)
    expect(
      (await send(guard, { key: 'k', path: '/a', body: '{"cents":1,"sentAt":2}' })).status,
    ).toBe(422)
    await guard.close()
  })

  test('takes a form whose boundary changes with each attempt for the same request', async () => {
    const handler = vi.fn(charged)
    const guard = guardOf(handler, {
      decode: (bytes, { headers }) =>
        new Response(Uint8Array.from(bytes), { headers }).formData() as Promise<unknown>,
      fingerprint: (form) => [...(form as FormData)],
    })
    const post = async (cents: string): Promise<number> => {
      const body = new FormData()
      body.set('cents', cents)
      const headers = { 'idempotency-key': 'k' }
      const request = new Request('http://localhost/charges', { method: 'POST', headers, body })
      return (await guard.fetch(request)).status
    }
    expect([await post('1'), await post('1'), await post('2')]).toEqual([201, 201, 422])
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('is answered 500, and reported, if what it compares has no JSON', async () => {
    const handler = vi.fn(charged)
    const logger = { ...silent, error: vi.fn() }
    const decode = (bytes: Uint8Array) => new URLSearchParams(Buffer.from(bytes).toString())
    const guard = guardOf(handler, { decode, fingerprint: (form) => form, logger })
    expect(kindOf(await send(guard, { body: 'cents=500' }))).toBe('failed')
    const message = expect.stringMatching(/^Expected `fingerprint` to answer .* FormData/)
    expect(logger.error).toHaveBeenCalledWith(
      expect.objectContaining({ err: expect.objectContaining({ message }) }),
      expect.stringMatching(/^fingerprint answered a value of the wrong type/),
    )
    expect(handler).not.toHaveBeenCalled()
    await guard.close()
  })

  test("ignores the body, and nothing else, with fingerprint: 'none'", async () => {
    const handler = vi.fn(charged)
    const guard = guardOf(handler, { fingerprint: 'none' })
    await send(guard, { key: 'k', body: '{"cents":1}' })
    expect((await send(guard, { key: 'k', body: '{"cents":2}' })).status).toBe(201)
    expect((await send(guard, { key: 'k', path: '/charges/2' })).status).toBe(422)
    expect((await send(guard, { key: 'k', method: 'DELETE' })).status).toBe(422)
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('keeps the keys of callers apart', async () => {
    const handler = vi.fn(charged)
    const tenant = async (request: { readonly headers: Headers }) =>
      request.headers.get('x-account') ?? undefined
    const guard = guardOf(handler, { tenant })
    for (const account of ['a', 'b', 'a'])
      await send(guard, { key: 'k', headers: { 'x-account': account } })
    expect(handler).toHaveBeenCalledTimes(2)
    for (const headers of [{}, { 'x-account': '' }]) {
      const answer = await send(guard, { key: 'k', headers })
      expect([answer.status, kindOf(answer)]).toEqual([401, 'caller-unknown'])
    }
    expect(handler).toHaveBeenCalledTimes(2)
    await guard.close()
  })
})

describe('what a tenant function answers', () => {
  // Red when a value that names no caller becomes a text: all callers would share it, and their keys.
  test.each<[string, unknown, number, string | undefined]>([
    ['a number', 5, 201, undefined],
    ['null', null, 401, 'caller-unknown'],
    ['nothing', undefined, 401, 'caller-unknown'],
    ['1,024 bytes', 'ü'.repeat(512), 201, undefined],
    ['more than 1,024 bytes', `${'ü'.repeat(512)}.`, 201, undefined],
    ['no Unicode text', '\uD800', 401, 'caller-unknown'],
    ['an object', { account: 'a' }, 500, 'failed'],
    ['a number that is not whole', 1.5, 500, 'failed'],
  ])('may be %s', async (_what, found, status, kind) => {
    const handler = vi.fn(charged)
    const error = vi.fn()
    const logger = { ...silent, error }
    const guard = guardOf(handler, { tenant: (() => found) as never, logger })
    const answer = await send(guard, { key: 'k' })
    expect([answer.status, kindOf(answer)]).toEqual([status, kind])
    expect(handler).toHaveBeenCalledTimes(status === 201 ? 1 : 0)
    const message = expect.stringMatching(/^Expected `tenant` to return a string, or undefined/)
    const told = [expect.objectContaining({ err: expect.objectContaining({ message }) })]
    expect(error.mock.calls.map(([fields]) => fields)).toEqual(status === 500 ? told : [])
    await guard.close()
  })
})

test.each([undefined, null, {}, 'guard'])('%j is no guard for a route', (value) => {
  expect(() => runningOf('expressRoute', value as never)).toThrow(
    /^expressRoute expected a guard made by createHttpGuard/,
  )
})

describe('a key that is in flight', () => {
  test('gets the answer if it comes within claimWaitMs', async () => {
    const gate = Promise.withResolvers<void>()
    const handler = vi.fn(async () => {
      await gate.promise
      return charged()
    })
    const guard = guardOf(handler, { claimWaitMs: 20_000 })
    const all = Promise.all(Array.from({ length: 20 }, () => send(guard, { key: 'k' })))
    await vi.waitFor(() => expect(handler).toHaveBeenCalled())
    gate.resolve()
    const answers = await all
    expect(new Set(answers.map(({ sha256, status }) => `${status} ${sha256}`)).size).toBe(1)
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('answers 409 with Retry-After after claimWaitMs', async () => {
    const gate = Promise.withResolvers<void>()
    const handler = vi.fn(async () => {
      await gate.promise
      return charged()
    })
    const guard = guardOf(handler, { claimWaitMs: 10 })
    const first = send(guard, { key: 'k' })
    await vi.waitFor(() => expect(handler).toHaveBeenCalled())
    const answer = await send(guard, { key: 'k' })
    expect([answer.status, kindOf(answer)]).toEqual([409, 'in-flight'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    gate.resolve()
    expect((await first).status).toBe(201)
    await guard.close()
  })
})
