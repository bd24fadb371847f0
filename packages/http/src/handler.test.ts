import type { HandlerContext, Json } from '@onceward/core'
import { describe, expect, test, vi } from 'vitest'
import { wholeReplyOf } from './answer/answer.ts'
import { AnswerError } from './answer/answer-error.ts'
import { HttpProblem } from './answer/problem.ts'
import { silent } from './fixtures/charges.ts'
import { createLaterHandler, createRouteHandler } from './handler.ts'
import type { AnyHttpOptions, HttpHandler } from './options.ts'

const context = {} as HandlerContext<never>
const request = { url: 'http://x/charges' }

/** An event as the engine hands it over, and what the handler has left with its request. */
function setUp(handler: HttpHandler<unknown, unknown>, options: object = {}) {
  const raw: Record<string, unknown> = { request }
  const event = {
    ...{ raw, key: 'k', tenant: 'acme', idempotencyKey: 'id' },
    payload: { content: {}, payload: { cents: 5 } },
  }
  const error = vi.fn()
  const route = createRouteHandler(
    { tenant: 'none', ...options } as unknown as AnyHttpOptions,
    handler,
    () => ({ ...silent, error }),
  )
  return { error, event: event as never, raw, route }
}

const inbox = {}
const unusable = { body: new Map([[1, 2]]) }
const lost = { v: 1, status: 500, text: expect.stringContaining('answer-lost') }
const stored = (status: number): object => expect.objectContaining({ v: 1, status })

describe('a handler', () => {
  const seen = {
    ...{ payload: { cents: 5 }, request, key: 'k', tenant: 'acme', idempotencyKey: 'id' },
  }

  test('gets the request, and its answer is kept for the client that waits', async () => {
    for (const given of [{ status: 201 }, Promise.resolve({ status: 201 })]) {
      const handler = vi.fn(() => given)
      const { event, route } = setUp(handler, { inbox })
      const result = await route.handler(event, context)
      expect(handler).toHaveBeenCalledWith(seen, context)
      expect(result).toEqual(stored(201))
      expect(wholeReplyOf(result)).toMatchObject({ status: 201 })
    }
  })

  test('may answer a Response', async () => {
    const { event, route } = setUp(() => new Response('a', { status: 202 }), { inbox })
    const result = await route.handler(event, context)
    expect(result).toEqual(stored(202))
    expect(wholeReplyOf(result)).toMatchObject({ status: 202 })
  })

  test('does not run again if an earlier run has decided the answer', async () => {
    const handler = vi.fn()
    const { event, raw, route } = setUp(handler, { inbox })
    const problem = new HttpProblem({ status: 402, title: 'declined', store: true })
    raw['decided'] = route.toDecided(problem)
    expect(await route.handler(event, context)).toEqual(stored(402))
    expect(handler).not.toHaveBeenCalled()
  })

  test('that runs later gets the request, is waited for, and its return value is ignored', async () => {
    const handler = vi.fn(async () => ({ status: 201 }))
    const { event } = setUp(handler)
    expect(await createLaterHandler(handler)(event, context)).toBeUndefined()
    expect(handler).toHaveBeenCalledWith(seen, context)
    const failing = createLaterHandler(() => Promise.reject(new Error('down')))
    await expect(failing(event, context)).rejects.toThrow('down')
  })
})

const THROWN = [
  new Error('down'),
  new HttpProblem({ status: 402, title: 'declined' }),
  new HttpProblem({ status: 402, title: 'declined', store: true }),
]
const called = async (
  route: ReturnType<typeof setUp>['route'],
  event: never,
): Promise<Json | undefined> => (await route.handler(event, context)) as Json

describe('with an inbox', () => {
  test.each(THROWN)('whatever is thrown rolls back: %s', async (thrown) => {
    for (const handler of [() => Promise.reject(thrown), throwing(thrown)]) {
      const { error, event, route } = setUp(handler, { inbox })
      await expect(called(route, event)).rejects.toBe(thrown)
      expect(error).not.toHaveBeenCalled()
    }
  })

  test('an answer that cannot be stored rolls back', async () => {
    for (const handler of [() => unusable, async () => unusable, () => usedResponse()]) {
      const { error, event, route } = setUp(handler, { inbox })
      await expect(called(route, event)).rejects.toBeInstanceOf(AnswerError)
      expect(error).not.toHaveBeenCalled()
    }
  })
})

describe('without an inbox', () => {
  test('a problem to be stored is the answer, and everything else that is thrown fails', async () => {
    for (const thrown of THROWN) {
      const { event, route } = setUp(throwing(thrown))
      const isAnswer = HttpProblem.is(thrown) && thrown.store
      if (isAnswer) expect(await called(route, event)).toEqual(stored(402))
      else await expect(called(route, event)).rejects.toBe(thrown)
    }
  })

  test('what cannot be stored becomes a problem that is, because the effect has happened', async () => {
    const odd = new HttpProblem({
      ...{ status: 402, title: 'x', store: true, headers: { 'x-a': 'a\nb' } },
    })
    for (const handler of [() => unusable, () => usedResponse(), throwing(odd)]) {
      const { error, event, route } = setUp(handler)
      const result = await called(route, event)
      expect(result).toMatchObject(lost)
      expect(wholeReplyOf(result)).toMatchObject({ status: 500 })
      expect(error).toHaveBeenCalledExactlyOnceWith(
        { eventId: 'id', err: expect.objectContaining({ name: 'AnswerError' }) },
        expect.stringContaining('fix the handler'),
      )
    }
  })
})

describe('a takeover', () => {
  const decided = async (onTakeover: unknown): Promise<unknown> => {
    const { event, route } = setUp(() => undefined, { onTakeover })
    return route.takeOver(event, context)
  }

  test('is decided by the option, or by a person', async () => {
    expect(await decided(undefined)).toEqual({ kind: 'dead-letter' })
    expect(await decided('retry')).toEqual({ kind: 'retry' })
    expect(await decided(async () => ({ kind: 'retry' }))).toEqual({ kind: 'retry' })
  })

  test('that finds the effect stores its answer', async () => {
    const done = { kind: 'done', answer: { status: 201 } }
    expect(await decided(() => done)).toEqual({ kind: 'done', result: stored(201) })
    expect(await decided(async () => ({ kind: 'done' }))).toEqual({
      kind: 'done',
      result: stored(204),
    })
  })

  test('that is no decision is left to the engine', async () => {
    for (const odd of [undefined, null, 'done', { kind: 'other' }]) {
      expect(await decided(() => odd)).toBe(odd)
    }
  })
})

function throwing(thrown: unknown): () => never {
  return () => {
    throw thrown
  }
}

function usedResponse(): Response {
  const response = new Response('a')
  void response.text()
  return response
}
