import { memoryInbox, memoryLeases } from '@onceward/core/memory'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { HttpProblem } from './answer/problem.ts'
import { kindOf, requestOf, type Shown, shown, silent } from './fixtures/charges.ts'
import { createHttpGuard, type HttpGuard } from './http-guard.ts'

const refuse = (): never => {
  throw new Error('cannot be read')
}
/** As a strict mock, or an entity of an ORM whose session is closed. */
const unreadable = () => new Proxy({}, { get: refuse, ownKeys: refuse })

function locked(): Response {
  const response = new Response('charged')
  response.body?.getReader()
  return response
}

function detached(): ArrayBuffer {
  const buffer = new ArrayBuffer(8)
  structuredClone(buffer, { transfer: [buffer] })
  return buffer
}

const body: fc.Arbitrary<unknown> = fc.oneof(
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withTypedArray: true }),
  fc.string({ unit: 'binary' }),
  fc.constantFrom(unreadable, detached, () => new Blob(['a'])).map((make) => make()),
)
const header = fc.oneof(fc.string(), fc.integer(), fc.array(fc.string()), fc.anything())
const headers: fc.Arbitrary<unknown> = fc.oneof(
  fc.dictionary(fc.constantFrom('content-type', 'content-encoding', 'etag', 'x-trace'), header),
  fc.dictionary(fc.string(), header),
  fc.constantFrom<unknown>(null, [['etag', 'a']], new Map([['etag', 'a']]), unreadable()),
)
const status: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(200, 201, 204, 205, 302, 304, 402, 500) },
  fc.integer({ min: -1, max: 1_000 }),
  fc.constantFrom<unknown>(null, '200', Object.create(null)),
)
const parts = fc.record({ status, headers, body }, { requiredKeys: [] })
/** What a handler returns, made anew for each run. */
const answer: fc.Arbitrary<() => unknown> = fc.oneof(
  { weight: 6, arbitrary: parts.map((made) => () => made) },
  { weight: 2, arbitrary: fc.anything().map((made) => () => made) },
  fc.constantFrom<() => unknown>(
    locked,
    unreadable,
    () => new Response('charged', { status: 201, headers: { etag: '"a"' } }),
    () => new Error('returned instead of thrown'),
    () => new Map(),
    () => {
      throw new HttpProblem({
        status: 402,
        title: 't',
        store: true,
        extensions: { a: 1n as never },
      })
    },
    () => {
      throw new HttpProblem({ status: 402, title: 't', store: true, headers: { a: '\n' } })
    },
  ),
)

const GUARDS: Readonly<Record<string, (handler: () => unknown) => HttpGuard>> = {
  'an inbox': (handler) =>
    createHttpGuard(
      { consumer: 'charges', inbox: memoryInbox(), tenant: 'none', logger: silent },
      handler as never,
    ),
  'leases alone': (handler) =>
    createHttpGuard(
      {
        ...{ consumer: 'charges', leases: memoryLeases(), onTakeover: 'dead-letter' },
        ...{ tenant: 'none', logger: silent },
      },
      handler as never,
    ),
}

/** What both must have for a client to read the same. */
const content = ({ headers, sha256, status }: Shown) => [
  ...[status, sha256, headers['content-type'], headers['content-encoding'], headers['etag']],
]

describe.each(Object.keys(GUARDS))('property: whatever a handler returns, with %s', (store) => {
  test('a run with an effect is the only one, and its retry gets the same', async () => {
    let runs = 0
    let give: () => unknown = () => undefined
    const guard = GUARDS[store]?.(() => {
      runs += 1
      return give()
    }) as HttpGuard
    let key = 0
    const property = fc.asyncProperty(answer, async (given) => {
      key += 1
      runs = 0
      give = given
      const send = async () => shown(await guard.fetch(requestOf({ key: `k${key}` })))
      const first = await send()
      const retry = await send()
      expect(content(retry)).toEqual(content(first))
      // Only an inbox rolls back what the run has done.
      const isRolledBack = store === 'an inbox' && kindOf(first) === 'failed'
      expect([runs, retry.headers['idempotency-replayed']]).toEqual(
        isRolledBack ? [2, undefined] : [1, 'true'],
      )
    })
    await fc.assert(property, { numRuns: 1_000 })
    await guard.close()
  })
})
