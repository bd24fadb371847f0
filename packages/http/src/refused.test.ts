import { memoryInbox } from '@onceward/core/memory'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { HttpProblem } from './answer/problem.ts'
import {
  guardOf,
  kindOf,
  requestOf,
  type Sent,
  type Shown,
  shown,
  silent,
} from './fixtures/charges.ts'
import { timedOut } from './fixtures/deadline.ts'
import type { HttpGuard } from './http-guard.ts'

const send = async (guard: HttpGuard, sent: Sent = {}): Promise<Shown> =>
  shown(await guard.fetch(requestOf(sent)))

const charged = () => ({
  status: 201,
  headers: { location: '/charges/1', 'set-cookie': 'session=1', 'x-trace': 'abc' },
  body: { chargeId: 1 },
})

describe('a request that is refused', () => {
  const forbidden = () => {
    throw new HttpProblem({ status: 403, title: 'the account is closed', store: true })
  }
  const schema = z.unknown().transform(forbidden)
  const never = () => new Promise<never>(() => undefined)

  test.each<readonly [string, object]>([
    ['tenant', { tenant: forbidden }],
    ['tenant, later', { tenant: async () => forbidden() }],
    ['decode', { decode: forbidden }],
    ['schema', { schema }],
    ['fingerprint', { fingerprint: forbidden }],
  ])(
    'by a problem that a function of the user throws is answered so, once: %s',
    async (_, given) => {
      const handler = vi.fn(charged)
      const logger = { ...silent, error: vi.fn() }
      const inbox = memoryInbox()
      const guard = guardOf(handler, { inbox, logger, ...given })
      const answer = await send(guard, { key: 'k' })
      expect(answer.status).toBe(403)
      expect(JSON.parse(answer.text)).toMatchObject({ title: 'the account is closed' })
      expect(handler).not.toHaveBeenCalled()
      expect(logger.error).not.toHaveBeenCalled()
      await guard.close()
      const open = guardOf(handler, { inbox })
      expect((await send(open, { key: 'k' })).status).toBe(201)
      await open.close()
    },
  )

  test.each<readonly [string, object]>([
    ['decode', { decode: never }],
    ['schema', { schema: z.unknown().refine(never) }],
    ['fingerprint', { fingerprint: never }],
  ])('because a function of the user gives no answer is answered 503: %s', async (_, given) => {
    const guard = await timedOut(given)
    await guard.close()
  })

  test('by a problem that cannot be sent is answered 500, and reported', async () => {
    const logger = { ...silent, error: vi.fn() }
    const tenant = () => {
      throw new HttpProblem({ status: 403, title: 'x', headers: { 'x-a': 'a\r\nb: c' } })
    }
    const guard = guardOf(charged, { logger, tenant })
    expect((await send(guard, { key: 'k' })).status).toBe(500)
    expect(logger.error).toHaveBeenCalledOnce()
    await guard.close()
  })

  test.each<readonly [string, Sent, number, string]>([
    ['without a key', { key: undefined }, 400, 'key-missing'],
    ['with an empty key', { key: '' }, 400, 'key-missing'],
    ['with a malformed key', { key: 'a b' }, 400, 'key-malformed'],
    ['with a body that is no JSON', { body: '{' }, 400, 'invalid-body'],
    [
      'with a body that is no UTF-8',
      { body: new Uint8Array([0x22, 0xff, 0x22]) },
      400,
      'invalid-body',
    ],
    ['with a body that does not fit the schema', { body: '{"cents":"5"}' }, 400, 'invalid-body'],
    ['with a body that is too large', { body: `"${'a'.repeat(200)}"` }, 413, 'body-too-large'],
    [
      'of another type',
      { headers: { 'content-type': 'text/plain' } },
      415,
      'unsupported-media-type',
    ],
    [
      'in another encoding',
      { headers: { 'content-type': 'application/json; charset=latin1' } },
      415,
      'unsupported-media-type',
    ],
    [
      'that is compressed in a way that the guard does not know',
      { headers: { 'content-encoding': 'zstd' } },
      415,
      'unsupported-media-type',
    ],
    ['of a safe method', { method: 'GET' }, 405, 'method-not-allowed'],
  ])('%s runs nothing and stores nothing: %i %s', async (_what, sent, status, kind) => {
    const handler = vi.fn(charged)
    const inbox = memoryInbox()
    const schema = z.object({ cents: z.number() })
    const guard = guardOf(handler, { inbox, schema, maxBodyBytes: 100 })
    const answer = await send(guard, { key: 'k', ...sent })
    expect([answer.status, kindOf(answer)]).toEqual([status, kind])
    expect(JSON.parse(answer.text)).toMatchObject({ status, title: expect.any(String) })
    expect(handler).not.toHaveBeenCalled()
    expect(inbox.deadLetters()).toEqual([])
    expect((await send(guard, { key: 'k' })).status).toBe(201)
    await guard.close()
  })

  test('tells the client which part of its body is wrong, and nothing of an error in the code', async () => {
    const schema = z.object({ cents: z.number() })
    const guard = guardOf(charged, { schema })
    const answer = await send(guard, { body: '{"cents":"hunter2"}' })
    expect(answer.text).toContain('cents')
    expect(answer.text).not.toContain('hunter2')
    await guard.close()
    const decode = (): never => {
      throw new Error('postgres://user:secret@host')
    }
    const broken = guardOf(charged, { decode })
    expect((await send(broken)).text).not.toContain('secret')
    await broken.close()
  })

  test('two key headers are one request with two keys', async () => {
    const guard = guardOf(charged)
    const request = requestOf({ key: 'a' })
    request.headers.append('idempotency-key', 'b')
    expect((await guard.fetch(request)).status).toBe(400)
    await guard.close()
  })
})

// Red without the warning: a provider that posts text/plain gets 415 until it gives up, and nobody hears of it.
test('a content type that is refused is reported once, with the option that reads it', async () => {
  const lines: unknown[][] = []
  const logger = { ...silent, warn: (...line: unknown[]) => void lines.push(line) }
  const guard = guardOf(charged, { logger })
  for (const contentType of ['text/plain', 'text/plain', 'application/xml']) {
    const headers = { 'content-type': contentType, 'idempotency-key': 'k' }
    const request = new Request('http://a', { method: 'POST', headers, body: 'a=1' })
    expect((await guard.fetch(request)).status).toBe(415)
  }
  expect(lines).toMatchObject([
    [{ contentType: 'text/plain' }, expect.stringContaining('`decode`')],
    [{ contentType: 'application/xml' }, expect.stringContaining('`decode`')],
  ])
})
