import { createHash, randomUUID } from 'node:crypto'
import type { HttpGuard } from '@onceward/http'
import { until } from '@onceward/testing'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  FRAMEWORKS,
  type Framework,
  type Running,
  serve,
} from '../../packages/http/src/fixtures/servers.ts'
import { chargesOn, DEEDS, type Deed } from './guarded.ts'
import { type Ledger, openLedger } from './scenario.ts'

/** One request of a client. At most one thing is wrong with it, so that no order of the checks is told. */
interface Sent {
  readonly framework: Framework
  readonly key: number
  readonly isQuoted: boolean
  readonly account: 'a' | 'b'
  readonly body: number
  readonly path: '/charges' | '/charges/1'
  readonly method: 'POST' | 'PUT'
  readonly deed: Deed
  readonly wrong: Wrong | undefined
  readonly hangsUp: boolean
}

const WRONGS = {
  'no key': [400, 'key-missing'],
  'a malformed key': [400, 'key-malformed'],
  'no account': [401, 'caller-unknown'],
  'a safe method': [405, 'method-not-allowed'],
  'no JSON': [400, 'invalid-body'],
  'another type': [415, 'unsupported-media-type'],
  'a long body': [413, 'body-too-large'],
} as const
type Wrong = keyof typeof WRONGS

/** What the table of answers says: docs/http.md. */
type Expected =
  | { readonly kind: 'problem'; readonly status: number; readonly name: string | undefined }
  | { readonly kind: 'failed' }
  | { readonly kind: 'busy' }
  | { readonly kind: 'first'; readonly status: number }
  | { readonly kind: 'again'; readonly status: number; readonly sha256: string | undefined }

interface Done {
  readonly request: string
  readonly status: number
  /** Undefined if the client hung up before it saw the answer. */
  sha256: string | undefined
}

const sent: fc.Arbitrary<Sent> = fc.record({
  framework: fc.constantFrom(...FRAMEWORKS),
  key: fc.integer({ min: 0, max: 2 }),
  isQuoted: fc.boolean(),
  account: fc.constantFrom('a', 'b'),
  body: fc.integer({ min: 0, max: 1 }),
  path: fc.constantFrom('/charges', '/charges/1'),
  method: fc.constantFrom('POST', 'PUT'),
  deed: fc.constantFrom(...DEEDS, 'charge', 'charge'),
  wrong: fc.option(fc.constantFrom(...(Object.keys(WRONGS) as Wrong[])), {
    nil: undefined,
    freq: 4,
  }),
  hangsUp: fc.integer({ min: 0, max: 9 }).map((dice) => dice === 0),
})

const STATUS: Readonly<Partial<Record<Deed, number>>> = {
  charge: 201,
  decline: 402,
  'keep-402': 402,
}
const COMMITS: readonly Deed[] = ['charge', 'keep-402']

/** The table of answers, as a state machine over keys. */
class Model {
  readonly #done = new Map<string, Done>()
  charges = 0

  readonly run: string

  constructor(run: string) {
    this.run = run
  }

  keyOf({ key }: Sent): string {
    return `${this.run}-${key}`
  }

  ask(request: Sent): Expected {
    const { account, body, deed, method, path, wrong } = request
    // Fastify itself judges bodies that it parses.
    const isFastifys =
      request.framework === 'fastify' && (wrong === 'no JSON' || wrong === 'another type')
    if (wrong !== undefined) {
      const [status, name] = WRONGS[wrong]
      return { kind: 'problem', status, name: isFastifys ? undefined : name }
    }
    const id = `${account} ${this.keyOf(request)}`
    const asked = `${method} ${path} ${body}`
    const done = this.#done.get(id)
    if (done !== undefined && done.request !== asked) {
      return { kind: 'problem', status: 422, name: 'key-reused' }
    }
    if (done !== undefined) return { kind: 'again', ...done }
    const status = STATUS[deed]
    if (status === undefined) return { kind: deed === 'busy' ? 'busy' : 'failed' }
    if (COMMITS.includes(deed)) this.charges += 1
    this.#done.set(id, { request: asked, status, sha256: undefined })
    return { kind: 'first', status }
  }

  saw(request: Sent, sha256: string): void {
    const done = this.#done.get(`${request.account} ${this.keyOf(request)}`)
    if (done !== undefined) done.sha256 = sha256
  }
}

const BODIES = ['{"cents":500,"to":[1,2]}', '{"cents":501,"to":[1,2]}']
/** The same JSON in other words. */
const REWRITTEN = ['{ "to": [1.0, 2], "cents": 5e2 }', '{"to":[1,2],\n"cents":501}']

function toRequest(request: Sent, key: string, url: string): Request {
  const { account, body, deed, isQuoted, method, path, wrong } = request
  const headers = new Headers({ 'content-type': 'application/json', 'x-deed': deed })
  if (wrong !== 'no account') headers.set('x-account', account)
  if (wrong !== 'no key') headers.set('idempotency-key', isQuoted ? `"${key}"` : key)
  if (wrong === 'a malformed key') headers.set('idempotency-key', `${key} ${key}`)
  if (wrong === 'another type') headers.set('content-type', 'text/csv')
  const text = (isQuoted ? REWRITTEN : BODIES)[body] ?? ''
  const content =
    wrong === 'no JSON' ? '{' : wrong === 'a long body' ? `"${'a'.repeat(5_000)}"` : text
  return wrong === 'a safe method'
    ? new Request(`${url}${path}`, { headers })
    : new Request(`${url}${path}`, { method, headers, body: content })
}

const isSettled = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([
    promise.then(
      () => true,
      () => true,
    ),
    new Promise<boolean>((resolve) => setImmediate(() => resolve(false))),
  ])

describe('the table of answers', () => {
  let ledger: Ledger
  let guard: HttpGuard
  let servers: Readonly<Record<string, Running>>
  beforeAll(async () => {
    ledger = await openLedger()
    guard = chargesOn(ledger.pool, { maxBodyBytes: 1_000, claimWaitMs: 10_000 })
    const running = FRAMEWORKS.map(async (name) => [name, await serve(name, guard)] as const)
    servers = Object.fromEntries(await Promise.all(running))
  })
  afterAll(async () => {
    for (const server of Object.values(servers)) await server.close()
    await guard.close()
    await ledger[Symbol.asyncDispose]()
  })

  async function answerTo(request: Sent, key: string): Promise<Response | undefined> {
    const url = servers[request.framework]?.url ?? ''
    const client = new AbortController()
    const answer = fetch(toRequest(request, key, url), { signal: client.signal })
    if (!request.hangsUp || request.wrong !== undefined) return answer
    // The request is sent whole before the client hangs up: a part of a request is none.
    await until(async () => guard.health().inFlight > 0 || (await isSettled(answer)))
    client.abort()
    await answer.catch(() => undefined)
    await until(async () => guard.health().inFlight === 0)
    return undefined
  }

  test('is what every framework answers, to any requests in any order', async () => {
    const property = fc.asyncProperty(
      fc.array(sent, { minLength: 3, maxLength: 15 }),
      async (requests) => {
        const model = new Model(randomUUID())
        for (const request of requests) {
          const answer = await answerTo(request, model.keyOf(request))
          const expected = model.ask(request)
          if (answer === undefined) continue
          const text = await answer.text()
          const sha256 = createHash('sha256').update(text).digest('hex')
          const isReplay = answer.headers.get('idempotency-replayed') === 'true'
          expect(isReplay).toBe(expected.kind === 'again')
          switch (expected.kind) {
            case 'problem':
              expect(answer.status).toBe(expected.status)
              if (expected.name !== undefined)
                expect(text).toContain(`urn:onceward:${expected.name}`)
              break
            case 'failed':
              expect(answer.status).toBe(500)
              break
            case 'busy':
              expect(answer.status).toBe(429)
              break
            case 'again':
              expect(answer.status).toBe(expected.status)
              if (expected.sha256 !== undefined) expect(sha256).toBe(expected.sha256)
              model.saw(request, sha256)
              break
            case 'first':
              expect(answer.status).toBe(expected.status)
              model.saw(request, sha256)
          }
        }
        const { rows } = await ledger.pool.query(
          'select count(*)::int as n from charges where key like $1',
          [`${model.run}%`],
        )
        expect(rows[0].n).toBe(model.charges)
      },
    )
    await fc.assert(property, { numRuns: 40 })
    const { rows } = await ledger.pool.query(`
      select (select count(*)::int from onceward.failed_events) as failed,
             (select count(*)::int from onceward.refused_messages) as refused`)
    expect(rows).toEqual([{ failed: 0, refused: 0 }])
  })
})
