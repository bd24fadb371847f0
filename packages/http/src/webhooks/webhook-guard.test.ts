import { ConfigurationError, type EpochMs, type Logger, type OutcomeRecord } from '@onceward/core'
import { memoryInbox } from '@onceward/core/memory'
import { systemRuntime } from '@onceward/core/ports'
import { describe, expect, test, vi } from 'vitest'
import { shown } from '../fixtures/charges.ts'
import { FRAMEWORKS, serve } from '../fixtures/servers.ts'
import {
  bodyOf,
  headersOf,
  NOW_MS,
  OTHER,
  SCHEMES,
  type Scheme,
  SECRET,
} from '../fixtures/webhooks.ts'
import type { HttpGuard } from '../http-guard.ts'
import type { HttpHandler } from '../options.ts'
import {
  createWebhookGuard,
  githubSignature,
  standardWebhook,
  stripeSignature,
  type WebhookGuardOptions,
} from './index.ts'

const VERIFY = {
  ...{ stripe: stripeSignature, github: githubSignature },
  ...{ standard: standardWebhook, svix: standardWebhook },
}

type Given = Partial<WebhookGuardOptions<unknown, undefined>>

function setUp(scheme: Scheme, handler: HttpHandler<unknown, undefined>, given: Given = {}) {
  const lines: unknown[] = []
  const records: OutcomeRecord[] = []
  const log = (...line: unknown[]): void => void lines.push(line)
  const logger: Logger = { debug: log, info: log, warn: log, error: log }
  const inbox = memoryInbox()
  const clock = { nowMs: NOW_MS }
  const guard = createWebhookGuard(
    {
      ...{ consumer: 'webhooks', inbox, logger, verify: VERIFY[scheme]([SECRET, OTHER]) },
      runtime: { ...systemRuntime, now: () => clock.nowMs as EpochMs },
      observe: (record: OutcomeRecord) => void records.push(record),
      ...given,
    } as WebhookGuardOptions<unknown, undefined>,
    handler,
  )
  return { guard, inbox, lines, records, clock }
}

interface Sent {
  readonly id?: string
  readonly more?: object
  readonly headers?: Readonly<Record<string, string>>
  readonly atMs?: number
}

function requestOf(scheme: Scheme, sent: Sent = {}, url = 'http://localhost/charges'): Request {
  const { id = 'evt_1', more, headers, atMs } = sent
  const body = bodyOf(id, more)
  const signed = headersOf(scheme, { id, body, ...(atMs === undefined ? {} : { atMs }) })
  const type = { 'content-type': 'application/json' }
  return new Request(url, { method: 'POST', body, headers: { ...type, ...signed, ...headers } })
}

const send = async (guard: HttpGuard, ...of: Parameters<typeof requestOf>) =>
  shown(await guard.fetch(requestOf(...of)))

describe.each(SCHEMES)('a webhook of %s', (scheme) => {
  test('runs once and is answered 200, and so are its duplicates', async () => {
    const handler = vi.fn()
    const { guard } = setUp(scheme, handler)
    const answers = []
    for (let time = 0; time < 3; time++) answers.push(await send(guard, scheme))
    expect(answers.map(({ status, text }) => [status, text])).toEqual(Array(3).fill([200, '']))
    expect(answers.map(({ headers }) => headers['idempotency-replayed'])).toEqual([
      undefined,
      'true',
      'true',
    ])
    expect(handler).toHaveBeenCalledTimes(1)
    expect(handler.mock.calls[0]?.[0]).toMatchObject({ key: 'evt_1', payload: { cents: 500 } })
    await guard.close()
  })

  test('that is delivered again with other details, as Stripe does, is a duplicate', async () => {
    const handler = vi.fn()
    const { guard } = setUp(scheme, handler)
    const first = await send(guard, scheme, { more: { pending_webhooks: 2 } })
    const later = await send(guard, scheme, { more: { pending_webhooks: 1 } })
    expect([first.status, later.status]).toEqual([200, 200])
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('may come in any order: each event runs once', async () => {
    const ran: string[] = []
    const { guard } = setUp(scheme, ({ key }) => void ran.push(key))
    const ids = ['c', 'a', 'b', 'a', 'c', 'b', 'a']
    const answers = await Promise.all(ids.map((id) => send(guard, scheme, { id })))
    // A copy in flight is delivered again later.
    for (const { status } of answers) expect([200, 409]).toContain(status)
    expect(ran.toSorted()).toEqual(['a', 'b', 'c'])
    await guard.close()
  })

  test('without a good signature is answered 401, and nothing of it is stored, logged or told', async () => {
    const handler = vi.fn()
    const { guard, inbox, lines, records } = setUp(scheme, handler)
    const [name = ''] = Object.keys(headersOf(scheme, { id: 'x', body: '' })).filter((each) =>
      each.includes('signature'),
    )
    for (const value of [
      '',
      'x',
      `t=1,v1=${'0'.repeat(64)}`,
      `sha256=${'0'.repeat(64)}`,
      'v1,AAAA',
    ]) {
      const sent = { more: { card: '4242424242424242' }, headers: { [name]: value } }
      const answer = await send(guard, scheme, sent)
      expect(answer.status).toBe(401)
      expect(answer.text).not.toContain('4242')
    }
    expect(handler).not.toHaveBeenCalled()
    expect([inbox.deadLetters(), lines, records]).toEqual([[], [], []])
    // The event itself is not touched by whoever tried.
    expect((await send(guard, scheme)).status).toBe(200)
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })

  test('whose handler throws is rolled back and answered 500, and the next delivery runs it', async () => {
    let runs = 0
    const { guard, lines } = setUp(scheme, () => {
      runs += 1
      if (runs === 1) throw new Error('not now')
    })
    const statuses = [
      await send(guard, scheme),
      await send(guard, scheme),
      await send(guard, scheme),
    ]
    expect(statuses.map(({ status }) => status)).toEqual([500, 200, 200])
    expect(runs).toBe(2)
    expect(JSON.stringify(lines)).not.toContain(SECRET)
    await guard.close()
  })

  test('is guarded behind every framework', async () => {
    for (const framework of FRAMEWORKS) {
      const handler = vi.fn()
      const { guard } = setUp(scheme, handler)
      const server = await serve(framework, guard)
      const url = `${server.url}/charges`
      const answers = []
      for (let time = 0; time < 2; time++) answers.push(await fetch(requestOf(scheme, {}, url)))
      const bad = requestOf(scheme, {}, url)
      answers.push(await fetch(new Request(bad, { body: '{"id":"evt_2"}' })))
      expect(
        answers.map(({ status }) => status),
        framework,
      ).toEqual([200, 200, 401])
      expect(handler).toHaveBeenCalledTimes(1)
      await server.close()
      await guard.close()
    }
  })
})

describe.each(['stripe', 'standard'] as const)('a captured delivery of %s', (scheme) => {
  test('that is replayed is a duplicate within the tolerance, and refused after it', async () => {
    const handler = vi.fn()
    const { guard, clock } = setUp(scheme, handler)
    const statuses: number[] = []
    for (const passedMs of [0, 200_000, 301_000]) {
      clock.nowMs = NOW_MS + passedMs
      statuses.push((await send(guard, scheme)).status)
    }
    expect(statuses).toEqual([200, 200, 401])
    expect(handler).toHaveBeenCalledTimes(1)
    await guard.close()
  })
})

test('a verified delivery without an event id is answered 400', async () => {
  const { guard } = setUp('github', () => undefined)
  const request = requestOf('github')
  request.headers.delete('x-github-delivery')
  const { status, text } = await shown(await guard.fetch(request))
  expect([status, text]).toEqual([400, expect.stringContaining('The delivery has no event id')])
  await guard.close()
})

test('a tenant keeps the ids of accounts apart, and one without is answered 401', async () => {
  const handler = vi.fn()
  const tenant: Given['tenant'] = ({ headers }) => headers.get('x-account') ?? undefined
  const { guard } = setUp('github', handler, { tenant })
  const statuses = []
  for (const headers of [{ 'x-account': 'a' }, { 'x-account': 'b' }, { 'x-account': 'a' }, {}]) {
    statuses.push((await send(guard, 'github', { headers } as Sent)).status)
  }
  expect(statuses).toEqual([200, 200, 200, 401])
  expect(handler).toHaveBeenCalledTimes(2)
  await guard.close()
})

describe('a verifier of your own', () => {
  test.each([
    [() => ({ kind: 'verified', eventId: 'e' }), 200],
    [async () => ({ kind: 'verified', eventId: 'e' }), 200],
    [() => ({ kind: 'refused' }), 401],
    [() => undefined, 401],
    [() => true, 401],
    [() => ({ kind: 'verified', eventId: 5 }), 400],
    [() => Promise.reject(new Error('the key server is down')), 500],
    [
      () => {
        throw new Error('broken')
      },
      500,
    ],
  ])('fails closed: %#', async (verify, status) => {
    const handler = vi.fn()
    const { guard } = setUp('github', handler, { verify } as Given)
    expect((await send(guard, 'github')).status).toBe(status)
    expect(handler).toHaveBeenCalledTimes(status === 200 ? 1 : 0)
    await guard.close()
  })
})

// Red when an option that is given as undefined is no longer its default: a delivery with other details is answered 422.
test('options that are undefined have their defaults', async () => {
  const handler = vi.fn()
  const { guard } = setUp('stripe', handler, { fingerprint: undefined, tenant: undefined })
  const statuses = []
  for (const more of [{ pending_webhooks: 2 }, { pending_webhooks: 1 }]) {
    statuses.push((await send(guard, 'stripe', { more })).status)
  }
  expect(statuses).toEqual([200, 200])
  expect(handler).toHaveBeenCalledOnce()
  await guard.close()
})

test('the clock of a runtime is asked as its own method', async () => {
  class Fixed {
    readonly nowMs = NOW_MS as EpochMs
    now(): EpochMs {
      return this.nowMs
    }
  }
  const runtime = Object.assign(new Fixed(), { ...systemRuntime, now: Fixed.prototype.now })
  const { guard } = setUp('stripe', vi.fn(), { runtime })
  expect((await send(guard, 'stripe')).status).toBe(200)
  await guard.close()
})

test('configuration that cannot work is refused', () => {
  const inbox = memoryInbox()
  const make = (options: unknown) => () => createWebhookGuard(options as never, () => undefined)
  expect(make({ consumer: 'c', inbox })).toThrow(/verify.*anybody could send events/)
  expect(make({ consumer: 'c', inbox, verify: SECRET })).toThrow(ConfigurationError)
  expect(make({ consumer: 'c', inbox, verify: SECRET })).not.toThrow(SECRET)
  expect(make({ consumer: 'c', inbox, verfy: githubSignature(SECRET) })).toThrow(
    /createWebhookGuard does not know "verfy", did you mean "verify"/,
  )
  expect(make(undefined)).toThrow(ConfigurationError)
  const verify = githubSignature(SECRET)
  expect(() => createWebhookGuard({ consumer: 'c', inbox, verify }, undefined as never)).toThrow(
    /Expected a handler as the second argument of createWebhookGuard, got undefined/,
  )
})
