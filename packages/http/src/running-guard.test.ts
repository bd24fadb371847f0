import type { Delivery, OutcomeRecord } from '@onceward/core'
import { readEnvelope } from '@onceward/core/adapter'
import { memoryInbox } from '@onceward/core/memory'
import { describe, expect, test, vi } from 'vitest'
import { HttpProblem } from './answer/problem.ts'
import { guardOf, kindOf, requestOf, type Sent, type Shown, shown } from './fixtures/charges.ts'
import { timedOut } from './fixtures/deadline.ts'
import { deliver, type Given, laterGuard } from './fixtures/later.ts'
import { createHttpGuard, type HttpGuard, runningOf } from './http-guard.ts'
import { fromWebRequest } from './request/request.ts'

const send = async (guard: HttpGuard, sent: Sent = {}): Promise<Shown> =>
  shown(await guard.fetch(requestOf(sent)))

function logging() {
  const lines: (readonly [level: string, fields: object, text: string])[] = []
  const log = (level: string) => (fields: object, text: string) =>
    void lines.push([level, fields, text])
  const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
  return { lines, logger }
}

test.each([
  [undefined, 'undefined'],
  [null, 'null'],
  ['charge', 'string'],
])('%s is no handler, and the error says how to write one', (handler, type) => {
  const options = { consumer: 'charges', inbox: memoryInbox(), tenant: 'none' } as const
  expect(() => createHttpGuard(options, handler as never)).toThrow(
    `Expected a handler as the second argument of createHttpGuard, got ${type}. Write`,
  )
})

describe('the answer to a request that is refused says what would be taken', () => {
  test.each(['GET', 'HEAD', 'OPTIONS', 'QUERY'])('the methods, to %s', async (method) => {
    const guard = guardOf(() => undefined)
    const { headers } = requestOf()
    const answer = await guard.fetch(new Request('http://localhost/charges', { method, headers }))
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST, PUT, PATCH, DELETE'])
    await guard.close()
  })

  test.each(['POST', 'PUT', 'PATCH', 'DELETE'])('and %s is taken', async (method) => {
    const guard = guardOf(() => undefined)
    expect((await send(guard, { method })).status).toBe(204)
    await guard.close()
  })

  test('the type and the coding of a body', async () => {
    const guard = guardOf(() => undefined)
    const answer = await send(guard, { headers: { 'content-type': 'text/plain' } })
    expect(answer).toMatchObject({
      status: 415,
      headers: { 'accept-post': 'application/json', 'accept-encoding': 'identity' },
    })
    expect(JSON.parse(answer.text)).toMatchObject({ detail: expect.stringContaining('JSON') })
    await guard.close()
  })

  test('the most bytes, which are a mebibyte, and that the connection ends', async () => {
    const guard = guardOf(() => undefined)
    const answer = await send(guard, { body: `"${'a'.repeat(1_048_575)}"` })
    expect(answer.status).toBe(413)
    expect(JSON.parse(answer.text)).toMatchObject({ detail: 'The limit is 1048576 bytes.' })
    expect((await send(guard, { body: `"${'a'.repeat(1_048_574)}"` })).status).toBe(204)
    await guard.close()
  })
})

describe('a body', () => {
  const handler = vi.fn(({ payload }) => ({ body: { payload } }))

  test.each<[string, Sent, number]>([
    ['that is empty needs no type', { body: '', headers: { 'content-type': 'text/plain' } }, 200],
    ['that is empty is not compressed', { body: '', headers: { 'content-encoding': 'br' } }, 415],
    ['of JSON may name its coding', { headers: { 'content-encoding': 'identity' } }, 200],
  ])('%s', async (_what, sent, status) => {
    const guard = guardOf(handler)
    expect((await send(guard, sent)).status).toBe(status)
    await guard.close()
  })

  test('of any type and coding is for the decoder, if there is one', async () => {
    const guard = guardOf(handler, { decode: (bytes) => bytes.byteLength })
    const headers = { 'content-type': 'application/zip', 'content-encoding': 'gzip' }
    expect(await send(guard, { body: 'abc', headers })).toMatchObject({
      ...{ status: 200, text: '{"payload":3}' },
    })
    await guard.close()
  })

  test('that cannot be read fails the request alone, and is reported', async () => {
    const { lines, logger } = logging()
    const guard = guardOf(() => undefined, { logger })
    const request = requestOf()
    await request.text()
    expect((await guard.fetch(request)).status).toBe(500)
    expect(lines).toMatchObject([
      [
        'error',
        { consumer: 'charges', err: { message: expect.stringMatching(/Call the guard first/) } },
        expect.stringMatching(/outside of its handler/),
      ],
    ])
    expect(guard.health().inFlight).toBe(0)
    await guard.close()
  })

  // Red when a client that hangs up, which happens all the time, is an error in the log.
  test('whose client hangs up half-way is no error', async () => {
    const { lines, logger } = logging()
    const guard = guardOf(() => undefined, { logger })
    const incoming = fromWebRequest(requestOf(), {
      readBytes: () => Promise.reject(new Error('aborted')),
    })
    await runningOf('test', guard).handle({ ...incoming, isGone: () => true })
    expect(lines).toMatchObject([
      ['debug', { consumer: 'charges', err: { message: 'aborted' } }, expect.any(String)],
    ])
    await guard.close()
  })
})

describe('a tenant that is asked', () => {
  test('and never answers is waited for until the deadline, and nothing runs', async () => {
    const { lines, logger } = logging()
    const tenant = () => new Promise<string>(() => undefined)
    const guard = await timedOut({ tenant, logger })
    expect(guard.health().inFlight).toBe(0)
    // Red when nothing tells the operator why requests are answered 503.
    expect(lines).toEqual([
      ['error', { consumer: 'charges' }, expect.stringMatching(/^`tenant` or `verify` gave no/)],
    ])
    await guard.close()
  })
})

describe('requests beyond what may wait', () => {
  test('are told to come again, and make room when they end', async () => {
    const gate = Promise.withResolvers<void>()
    const guard = guardOf(() => gate.promise.then(() => undefined), {
      ...{ concurrency: 1, maxWaiting: 1 },
    })
    const held = [send(guard), send(guard)]
    const refused = await send(guard)
    expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    expect(kindOf(refused)).toBe('overloaded')
    expect(guard.health().inFlight).toBe(2)
    gate.resolve()
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([204, 204])
    // Red when a refused request counts, or one that has ended.
    const next = await Promise.all([send(guard), send(guard)])
    expect(next.map(({ status }) => status)).toEqual([204, 204])
    await guard.close()
  })
})

describe('a problem that is thrown as the answer', () => {
  test('is committed by a second run, which does not call the handler', async () => {
    const records: OutcomeRecord[] = []
    const handler = vi.fn(() => {
      throw new HttpProblem({ status: 402, title: 'declined', store: true })
    })
    const guard = guardOf(handler, { observe: (record) => void records.push(record) })
    expect((await send(guard, { key: 'k' })).status).toBe(402)
    expect(handler).toHaveBeenCalledTimes(1)
    expect(records.map(({ settlement }) => settlement.kind)).toEqual(['defer', 'ack'])
    await guard.close()
  })

  // Red when the second run is tried for ever.
  test('and cannot be stored is tried once', async () => {
    const handler = vi.fn(() => {
      throw new HttpProblem({ status: 402, title: 'x'.repeat(100_000), store: true })
    })
    const guard = guardOf(handler)
    expect((await send(guard, { key: 'k' })).status).toBe(500)
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('by a function that reads the request is no answer of the handler', async () => {
    const decode = vi.fn(() => {
      throw new HttpProblem({ status: 403, title: 'closed', store: true })
    })
    const guard = guardOf(() => undefined, { decode })
    expect((await send(guard, { key: 'k' })).status).toBe(403)
    expect(decode).toHaveBeenCalledTimes(1)
    await guard.close()
  })
})

test.each([
  [undefined, false],
  ['finish', false],
  ['abort', true],
] as const)(
  'with onHangUp %s a client that hangs up aborts the run: %s',
  async (onHangUp, aborts) => {
    const started = Promise.withResolvers<AbortSignal>()
    const gate = Promise.withResolvers<void>()
    const guard = guardOf(
      async (_event, { signal }) => {
        started.resolve(signal)
        await gate.promise
      },
      { onHangUp },
    )
    const client = new AbortController()
    const answering = guard.fetch(new Request(requestOf(), { signal: client.signal }))
    const signal = await started.promise
    client.abort()
    expect(signal.aborted).toBe(aborts)
    gate.resolve()
    await answering
    await guard.close()
  },
)

test('what is wrong after the handler is reported with its consumer', async () => {
  const { lines, logger } = logging()
  const guard = guardOf(() => undefined, { logger })
  const running = runningOf('test', guard)
  running.reportUnsent(new Error('the middleware failed'))
  running.reportAnswered()
  expect(lines).toMatchObject([
    [
      'error',
      { consumer: 'charges', err: { message: 'the middleware failed' } },
      expect.stringMatching(/could not be written/),
    ],
    ['warn', { consumer: 'charges' }, expect.stringMatching(/return the answer from the handler/)],
  ])
  await guard.close()
})

describe('what the engine gets of a request', () => {
  /** The delivery of the first request. */
  function givenBy(guard: HttpGuard): () => Delivery {
    const run = vi.spyOn(runningOf('test', guard).port, 'run')
    return () => run.mock.calls[0]?.[0][0] as Delivery
  }
  const storedOf = ({ envelope }: Delivery): unknown => readEnvelope(envelope as Uint8Array)
  const headers = { cookie: 'a=b', 'x-shop': '7', 'x-github-event': 'push' }
  const named = { 'content-type': 'application/json', 'x-github-event': 'push' }

  test('is what runs later: its key, its type, its time and the headers that are stored', async () => {
    const { guard } = laterGuard(() => undefined, { requestHeaders: ['X-Shop'] } as Given)
    const given = givenBy(guard)
    expect((await deliver(guard, 'e', { headers })).status).toBe(202)
    const delivery = given()
    const kept = { ...named, 'x-shop': '7' }
    expect(delivery).toMatchObject({
      ...{ messageId: 'e', contentType: 'application/json', producedAt: new Date(1_000_000) },
      source: { broker: 'http', queue: 'webhooks' },
    })
    expect(delivery.headers).toEqual(kept)
    expect(storedOf(delivery)).toMatchObject({ key: 'e', headers: Object.entries(kept) })
    expect(Buffer.from(delivery.body).toString()).toBe('{"cents":500}')
    await guard.close()
  })

  // Red when the headers of a request that runs at once, credentials among them, reach the engine, which may store them.
  test('has no headers if it runs at once, and its stored form those that name it', async () => {
    const guard = guardOf(() => undefined)
    const given = givenBy(guard)
    expect((await send(guard, { key: 'k', headers })).status).toBe(204)
    const delivery = given()
    expect(delivery).toMatchObject({ messageId: 'k', source: { broker: 'http', queue: 'charges' } })
    expect([delivery.headers, delivery.producedAt]).toEqual([{}, undefined])
    expect(storedOf(delivery)).toMatchObject({ key: 'k', headers: Object.entries(named) })
    await guard.close()
  })
})
