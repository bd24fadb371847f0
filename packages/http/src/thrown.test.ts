import { StoreUnavailableError } from '@onceward/core'
import { memoryInbox, memoryLeases } from '@onceward/core/memory'
import { Clock } from '@onceward/testing/adapter'
import { describe, expect, test, vi } from 'vitest'
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
import { createHttpGuard, type HttpGuard } from './http-guard.ts'

const send = async (guard: HttpGuard, sent: Sent = {}): Promise<Shown> =>
  shown(await guard.fetch(requestOf(sent)))

const charged = () => ({
  status: 201,
  headers: { location: '/charges/1', 'set-cookie': 'session=1', 'x-trace': 'abc' },
  body: { chargeId: 1 },
})

describe('what a handler throws', () => {
  test('rolls back, answers 500 without details, and frees the key', async () => {
    let runs = 0
    const guard = guardOf(() => {
      runs += 1
      if (runs === 1) throw new Error('password=hunter2')
      return charged()
    })
    const answer = await send(guard, { key: 'k' })
    expect([answer.status, kindOf(answer)]).toEqual([500, 'failed'])
    expect(answer.text).not.toContain('hunter2')
    expect((await send(guard, { key: 'k' })).status).toBe(201)
    await guard.close()
  })

  test('is the answer once if it is an HttpProblem, and the key is free', async () => {
    const handler = vi.fn(() => {
      throw new HttpProblem({ status: 429, title: 'slow down', headers: { 'Retry-After': '7' } })
    })
    const guard = guardOf(handler)
    for (const runs of [1, 2]) {
      const answer = await send(guard, { key: 'k' })
      expect(answer).toMatchObject({ status: 429, headers: { 'retry-after': '7' } })
      expect(JSON.parse(answer.text)).toEqual({
        type: 'about:blank',
        title: 'slow down',
        status: 429,
      })
      expect(handler).toHaveBeenCalledTimes(runs)
    }
    await guard.close()
  })

  test('is the answer for good if it is an HttpProblem to be stored', async () => {
    const handler = vi.fn(() => {
      throw new HttpProblem({
        ...{ status: 402, title: 'card declined', type: 'https://example.com/declined' },
        ...{ detail: 'insufficient funds', extensions: { code: 51, status: 200 }, store: true },
      })
    })
    const guard = guardOf(handler)
    const first = await send(guard, { key: 'k' })
    expect(first.status).toBe(402)
    expect(first.headers['content-type']).toBe('application/problem+json')
    expect(JSON.parse(first.text)).toEqual({
      ...{ type: 'https://example.com/declined', title: 'card declined', status: 402 },
      ...{ detail: 'insufficient funds', code: 51 },
    })
    const retry = await send(guard, { key: 'k' })
    expect(retry).toMatchObject({ status: 402, sha256: first.sha256 })
    expect(retry.headers['idempotency-replayed']).toBe('true')
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  // Red before: the problem was not stored, and each retry ran the handler again.
  test('a misspelt `store` of a problem is refused', () => {
    const options = { status: 402, title: 'card declined', stored: true }
    expect(() => new HttpProblem(options)).toThrow(
      /HttpProblem does not know "stored", did you mean "store"/,
    )
    const { status, title } = options
    const copied = new HttpProblem({ ...new HttpProblem({ status, title }), store: true })
    expect(copied).toMatchObject({ name: 'HttpProblem', status, title, store: true })
  })

  test('answers 503 when the handler ran past its deadline, and frees the key', async () => {
    const stuck = Promise.withResolvers<undefined>()
    let runs = 0
    const guard = guardOf(
      () => {
        runs += 1
        return runs === 1 ? stuck.promise : charged()
      },
      { deadlineMs: 30 },
    )
    const answer = await send(guard, { key: 'k' })
    expect([answer.status, kindOf(answer)]).toEqual([503, 'timed-out'])
    expect(answer.headers['retry-after']).toBe('1')
    expect((await send(guard, { key: 'k' })).status).toBe(201)
    stuck.resolve(undefined)
    await guard.close()
  })
})

// Red when an answer that the handler chose is reported as a failure of the handler.
test.each([
  ['an error', () => new Error('no route to the bank'), ['warn']],
  ['a problem', () => new HttpProblem({ status: 409, title: 'Busy' }), []],
  [
    'a problem that is stored',
    () => new HttpProblem({ status: 402, title: 'No', store: true }),
    [],
  ],
] as const)('%s that the handler throws is logged above debug', async (_, make, levels) => {
  const logged: string[] = []
  const line = (level: string) => () => void logged.push(level)
  const logger = { debug: vi.fn(), info: line('info'), warn: line('warn'), error: line('error') }
  const guard = guardOf(
    () => {
      throw make()
    },
    { logger },
  )
  await send(guard)
  expect(logged).toEqual(levels)
  await guard.close()
})

describe('while a store is down', () => {
  test('a request is answered 503 with Retry-After and nothing runs', async () => {
    const handler = vi.fn(charged)
    const working = memoryInbox()
    let isDown = true
    const inbox: typeof working = {
      ...working,
      open: async (registration) => {
        if (isDown) throw new StoreUnavailableError('postgres://secret is down')
        return working.open(registration)
      },
    }
    const guard = guardOf(handler, { inbox })
    const answer = await send(guard, { key: 'k' })
    expect([answer.status, kindOf(answer)]).toEqual([503, 'unavailable'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(answer.text).not.toContain('secret')
    expect(guard.health().state).toBe('unavailable')
    isDown = false
    await vi.waitFor(async () => expect((await send(guard, { key: 'k' })).status).toBe(201), 10_000)
    expect(guard.health()).toEqual({ state: 'ready', inFlight: 0, outages: [] })
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('a route that is paused answers 503 with Retry-After, and runs the same key when it is resumed', async () => {
    const handler = vi.fn(charged)
    const inbox = memoryInbox()
    const guard = guardOf(handler, { inbox })
    expect((await send(guard, { key: 'first' })).status).toBe(201)
    inbox.pause(guard.consumer, { by: 'ana' })
    await vi.waitFor(async () => expect(guard.health().state).toBe('unavailable'), 20_000)
    const answer = await send(guard, { key: 'k' })
    expect([answer.status, kindOf(answer)]).toEqual([503, 'unavailable'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(answer.text).not.toContain('ana')
    expect(handler).toHaveBeenCalledTimes(1)
    inbox.pause(guard.consumer, undefined)
    await vi.waitFor(async () => expect((await send(guard, { key: 'k' })).status).toBe(201), 20_000)
    await guard.close()
  })

  test('an open that fails says so in health, before the first request', async () => {
    const working = memoryInbox()
    const down = new StoreUnavailableError('down')
    let isDown = true
    const open: typeof working.open = async (registration) => {
      if (isDown) throw down
      return working.open(registration)
    }
    const guard = guardOf(charged, { inbox: { ...working, open } })
    await expect(guard.open()).rejects.toBe(down)
    expect(guard.health()).toMatchObject({
      state: 'unavailable',
      outages: [{ dependency: 'inbox', error: down }],
    })
    isDown = false
    await guard.open()
    expect(guard.health()).toEqual({ state: 'ready', inFlight: 0, outages: [] })
    await guard.close()
  })

  // Red when only a request ends the outage: a load balancer that asks for the health sends none, for ever.
  test('its health says so until the store is asked again with the next request', async () => {
    const clock = new Clock()
    const handler = vi.fn(charged)
    const working = memoryInbox()
    const open = vi.fn(working.open).mockRejectedValueOnce(new StoreUnavailableError('down'))
    const guard = guardOf(handler, { inbox: { ...working, open }, runtime: clock.runtime })
    expect((await send(guard)).status).toBe(503)
    await clock.advance(400)
    expect(guard.health().state).toBe('unavailable')
    await clock.advance(600)
    expect(guard.health()).toMatchObject({ state: 'ready', outages: [{ dependency: 'inbox' }] })
    expect((await send(guard)).status).toBe(201)
    expect(guard.health()).toEqual({ state: 'ready', inFlight: 0, outages: [] })
    await guard.close()
  })

  test('a closed guard answers 503 and asks the client for another connection', async () => {
    const guard = guardOf(charged)
    await guard.close()
    const answer = await guard.fetch(requestOf())
    expect([answer.status, answer.headers.get('connection')]).toEqual([503, 'close'])
    expect(guard.health().state).toBe('closed')
  })
})

describe('with leases alone', () => {
  const alone = (handler: () => unknown, onTakeover: 'retry' | 'dead-letter' = 'retry') =>
    createHttpGuard(
      { consumer: 'mails', leases: memoryLeases(), onTakeover, tenant: 'none', logger: silent },
      handler as never,
    )

  test('answers are stored, and errors free the key', async () => {
    let runs = 0
    const guard = alone(() => {
      runs += 1
      if (runs === 1) throw new Error('mail server down')
      return charged()
    })
    expect((await send(guard, { key: 'k' })).status).toBe(500)
    const first = await send(guard, { key: 'k' })
    const retry = await send(guard, { key: 'k' })
    expect([first.status, retry.status, runs]).toEqual([201, 201, 2])
    expect(retry.sha256).toBe(first.sha256)
    await guard.close()
  })

  test('an answer that cannot be stored never repeats the effect', async () => {
    const handler = vi.fn(() => ({ body: 'a'.repeat(100_000) }))
    const guard = alone(handler)
    for (let retry = 0; retry < 2; retry++) {
      const answer = await send(guard, { key: 'k' })
      expect([answer.status, kindOf(answer)]).toEqual([500, 'answer-lost'])
    }
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('a problem to be stored is stored', async () => {
    const handler = vi.fn(() => {
      throw new HttpProblem({ status: 402, title: 'card declined', store: true })
    })
    const guard = alone(handler)
    for (let retry = 0; retry < 2; retry++)
      expect((await send(guard, { key: 'k' })).status).toBe(402)
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })
})
