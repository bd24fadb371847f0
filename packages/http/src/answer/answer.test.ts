import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { guardOf, kindOf, requestOf, shown } from '../fixtures/charges.ts'
import { checkAnswer, replyOf } from './answer.ts'
import { AnswerError } from './answer-error.ts'
import { toWebResponse } from './reply.ts'

const stored = new Set(['content-type', 'location'])
const check = async (answer: unknown) => checkAnswer(answer, stored)

describe('an answer', () => {
  test.each<readonly [string, unknown, number, string | null, string]>([
    ['nothing', undefined, 204, null, ''],
    ['an empty object', {}, 204, null, ''],
    ['a status alone', { status: 202 }, 202, null, ''],
    [
      'an object',
      { body: { a: [1, null] } },
      200,
      'application/json; charset=utf-8',
      '{"a":[1,null]}',
    ],
    ['null', { body: null }, 200, 'application/json; charset=utf-8', 'null'],
    ['a text', { body: 'ü' }, 200, 'text/plain; charset=utf-8', 'ü'],
    [
      'a text with a type',
      { headers: { 'Content-Type': 'text/html' }, body: '<p>' },
      200,
      'text/html',
      '<p>',
    ],
    ['bytes', { body: Buffer.from('abc') }, 200, 'application/octet-stream', 'abc'],
    [
      'an ArrayBuffer',
      { body: Uint8Array.from([97, 98]).buffer },
      200,
      'application/octet-stream',
      'ab',
    ],
    [
      'a view of bytes',
      { body: new DataView(Uint8Array.from([97, 98, 99]).buffer, 1) },
      200,
      'application/octet-stream',
      'bc',
    ],
    ['words', { body: Uint16Array.of(0x6261, 0x6463) }, 200, 'application/octet-stream', 'abcd'],
    ['an empty list', { body: [] }, 200, 'application/json; charset=utf-8', '[]'],
    [
      'an object without a prototype',
      { body: Object.create(null) },
      200,
      'application/json; charset=utf-8',
      '{}',
    ],
    [
      'an object with toJSON',
      { body: new URL('http://a.example/') },
      200,
      'application/json; charset=utf-8',
      '"http://a.example/"',
    ],
    ['a Response', new Response('abc', { status: 203 }), 203, 'text/plain;charset=UTF-8', 'abc'],
    ['a Response of JSON', Response.json({ a: 1 }), 200, 'application/json', '{"a":1}'],
    ['a Response of a Blob', new Response(new Blob(['ab', 'c'])), 200, null, 'abc'],
    ['a Response of nothing', new Response(null, { status: 204 }), 204, null, ''],
    ['a redirect', Response.redirect('http://a.example/b', 303), 303, null, ''],
  ])('may be %s', async (_what, answer, status, type, text) => {
    const { reply } = await check(answer)
    const response = toWebResponse(reply)
    expect([response.status, response.headers.get('content-type'), await response.text()]).toEqual([
      ...[status, type, text],
    ])
  })

  const circle: Record<string, unknown> = {}
  circle['circle'] = circle
  const used = new Response('abc')
  const beingRead = new Response('abc')
  beingRead.body?.getReader()
  const endless = new ReadableStream({ pull: () => new Promise(() => undefined) })
  test.each<readonly [string, () => unknown, RegExp]>([
    ['an array', () => [1], /returned an array/],
    ['null', () => null, /returned null/],
    ['a text', () => 'charged', /returned a string/],
    ['an Error', () => new Error('declined'), /returned an instance of Error/],
    ['a Map', () => new Map([['status', 201]]), /returned an instance of Map/],
    ['a Response that is being read', () => beingRead, /was read before/],
    ['headers of null', () => ({ headers: null }), /`headers` of the answer/],
    ['headers in pairs', () => ({ headers: [['etag', '"a"']] }), /`headers` of the answer/],
    [
      'headers in a Map',
      () => ({ headers: new Map([['etag', '"a"']]) }),
      /`headers` of the answer/,
    ],
    [
      'a row of the database',
      () => ({ chargeId: 1 }),
      /"chargeId", which is not part of an answer/,
    ],
    ['a stream of Node', () => ({ body: Readable.from(['a']) }), /is a stream/],
    ['a web stream', () => ({ body: endless }), /is a stream/],
    ['a generator', () => ({ body: (function* () {})() }), /is a stream/],
    [
      'a Response of a stream',
      () => new Response(new ReadableStream({ pull: () => new Promise(() => undefined) })),
      /is a stream/,
    ],
    ['a Response that was read', () => used, /was read before/],
    [
      'a Response that fails',
      () => new Response(new ReadableStream({ start: (c) => c.error(new Error('no')) })),
      /could not be read/,
    ],
    [
      'a Response that is too large',
      () => new Response('a'.repeat(70_000)),
      /more than 65536 bytes/,
    ],
    [
      'a text that is too large',
      () => ({ body: 'a'.repeat(70_000) }),
      /bytes to store, more than 65536/,
    ],
    [
      'bytes that are too large in base64',
      () => ({ body: new Uint8Array(60_000).fill(255) }),
      /bytes to store/,
    ],
    ['a circle', () => ({ body: circle }), /refers to itself/],
    ['a deep list', () => ({ body: JSON.parse('['.repeat(2e4) + ']'.repeat(2e4)) }), /too deep/],
    ['a function', () => ({ body: () => 1 }), /is a function/],
    ['a promise', () => ({ body: Promise.resolve({ a: 1 }) }), /instance of Promise.*Await it/],
    ['a Set', () => ({ body: new Set([1]) }), /instance of Set/],
    ['a form', () => ({ body: new URLSearchParams('a=1') }), /instance of URLSearchParams/],
    ['an error', () => ({ body: new Error('no') }), /instance of Error/],
    [
      'an odd object',
      () => ({ body: Object.create(Object.create({ constructor: null })) }),
      /instance of undefined/,
    ],
    ['status 100', () => ({ status: 100 }), /from 200 to 599/],
    ['status 1e3', () => ({ status: 1e3 }), /from 200 to 599/],
    ['a status of text', () => ({ status: '200' }), /from 200 to 599, got `200` .string./],
    ['a network error', () => Response.error(), /from 200 to 599/],
    ['a body of status 204', () => ({ status: 204, body: 'a' }), /has no body/],
    [
      'a header with a line break',
      () => ({ headers: { location: '/a\r\nset-cookie: b' } }),
      /"location".*cannot be sent/,
    ],
    ['a header beyond Latin-1', () => ({ headers: { location: '/€' } }), /encodeURI/],
    ['a header with a space in its name', () => ({ headers: { 'a b': 'c' } }), /cannot be sent/],
    ['a header that is an object', () => ({ headers: { a: {} } }), /cannot be sent/],
  ])('cannot be %s', async (_what, make, message) => {
    if (!used.bodyUsed) await used.text()
    await expect(check(make())).rejects.toThrow(message)
    await expect(check(make())).rejects.toBeInstanceOf(AnswerError)
  })

  test('of any bytes and texts comes back byte for byte', async () => {
    const body = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.uint8Array(),
      fc.json().map((text) => JSON.parse(text) as unknown),
    )
    await fc.assert(
      fc.asyncProperty(body, fc.constantFrom(200, 201, 404, 500), async (body, status) => {
        const { reply, stored } = await check({ status, body })
        // As the inbox stores it.
        const again = replyOf(JSON.parse(JSON.stringify(stored)))
        expect(again?.status).toBe(reply.status)
        expect(Buffer.from(again?.body ?? []).equals(Buffer.from(reply.body))).toBe(true)
      }),
    )
  })

  test('that was stored by a later version is lost, and says so', () => {
    for (const other of [undefined, null, 5, {}, { v: 2, status: 200, headers: [] }]) {
      expect(replyOf(other)).toBeUndefined()
    }
  })
})

describe('an odd handler', () => {
  const logged = () => {
    const lines: string[] = []
    const note = (_fields: object, text: string) => void lines.push(text)
    return { lines, logger: { debug: () => undefined, info: note, warn: note, error: note } }
  }

  test('that answers what cannot be stored is answered 500, and the key is free', async () => {
    const { lines, logger } = logged()
    const handler = vi.fn().mockReturnValueOnce({ rows: [] }).mockReturnValueOnce({ status: 201 })
    const guard = guardOf(handler, { logger })
    expect((await guard.fetch(requestOf({ key: 'k' }))).status).toBe(500)
    expect(lines).toEqual(['handler failed and its key is free again: the caller may retry'])
    expect((await guard.fetch(requestOf({ key: 'k' }))).status).toBe(201)
    await guard.close()
  })

  test.each([{ id: 'acme' }, true, 7n, ['acme'], Symbol('acme')])(
    'a tenant that returns %o is answered 500 and reported: clients cannot mend it',
    async (found) => {
      const { lines, logger } = logged()
      const handler = vi.fn(() => ({ status: 201 }))
      const guard = guardOf(handler, { logger, tenant: (() => found) as never })
      expect(kindOf(await shown(await guard.fetch(requestOf())))).toBe('failed')
      expect(lines).toEqual(['a request failed outside of its handler: look at the error'])
      expect(handler).not.toHaveBeenCalled()
      await guard.close()
    },
  )

  test('a tenant that throws is answered 500 and reported, and one that never answers 503', async () => {
    const { lines, logger } = logged()
    const tenant = vi
      .fn()
      .mockRejectedValueOnce(new Error('directory down'))
      .mockReturnValueOnce(new Promise(() => undefined))
      .mockReturnValue('acme')
    const guard = guardOf(() => ({ status: 201 }), { deadlineMs: 50, logger, tenant })
    const answers: number[] = []
    for (let retry = 0; retry < 3; retry++) {
      answers.push((await shown(await guard.fetch(requestOf({ key: 'k' })))).status)
    }
    expect(answers).toEqual([500, 503, 201])
    expect(lines).toEqual([
      'a request failed outside of its handler: look at the error',
      expect.stringContaining('gave no answer within deadlineMs'),
    ])
    await guard.close()
  })
})
