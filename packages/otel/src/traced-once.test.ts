import { getEventListeners } from 'node:events'
import { createGuard, type GuardEvent, type HandlerContext } from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import type { Span, Tracer } from '@opentelemetry/api'
import { expect, test, vi } from 'vitest'
import { SDKS } from './fixtures/sdks.ts'
import { traced } from './traced.ts'

// Red when the span has a `then` of its own: the query runs once for the span and once for the guard.
test('a handler that answers the query builder of a library runs its query once', async () => {
  const { spans, tracerProvider } = (SDKS[0] as (typeof SDKS)[number])[1]()
  let queries = 0
  const query = {
    // biome-ignore lint/suspicious/noThenProperty: as the builders of Knex and Drizzle do
    then: (done: (value: number) => void) => {
      queries += 1
      setImmediate(() => done(queries))
    },
  } as unknown as Promise<number>
  const afterCommit = (result: unknown): void => void results.push(result)
  const results: unknown[] = []
  const guard = createGuard(
    { consumer: 'billing', inbox: memoryInbox(), afterCommit },
    traced(() => query, { tracerProvider }),
  )
  await guard.processBatch([toDelivery(1, { messageId: 'm' }), toDelivery(1, { messageId: 'm' })])
  await guard.close()
  expect([queries, results, spans().length]).toEqual([1, [1, 1], 1])
})

/** Spans that count how often they end. */
function counted(tracer: Tracer) {
  const ends = vi.fn<() => void>()
  const startSpan: Tracer['startSpan'] = (...args) => {
    const span = tracer.startSpan(...args)
    return new Proxy(span, {
      get: (target, name) => (name === 'end' ? ends : Reflect.get(target, name).bind(target)),
    }) as Span
  }
  return { ends, tracerProvider: { getTracer: () => ({ ...tracer, startSpan }) } }
}

test('a span ends once, and leaves nothing at the signal of its run', async () => {
  const sdk = (SDKS.at(-1) as (typeof SDKS)[number])[1]()
  const tracer = sdk.tracerProvider.getTracer('test')
  const late = counted(tracer)
  const event = { ...toDelivery({}), payload: {}, key: 'k', attempt: 1, idempotencyKey: 'i' }
  const { promise, resolve } = Promise.withResolvers<void>()
  const stop = new AbortController()
  const { signal } = stop
  const run = ({ tracerProvider }: ReturnType<typeof counted>, result: Promise<void>): unknown => {
    const handle = (_: GuardEvent<unknown>, __: { signal: AbortSignal }): Promise<void> => result
    return traced(handle, { tracerProvider })(event, { signal })
  }
  const inTime = counted(tracer)
  await run(inTime, Promise.resolve())
  expect(getEventListeners(signal, 'abort')).toEqual([])
  const running = run(late, promise)
  stop.abort()
  expect(late.ends).toHaveBeenCalledTimes(1)
  resolve()
  await running
  await promise
  expect([late.ends, inTime.ends].map(({ mock }) => mock.calls.length)).toEqual([1, 1])
})

test('the span of a handler that never ends says why it was aborted', () => {
  const { spans, tracerProvider } = (SDKS[0] as (typeof SDKS)[number])[1]()
  const stop = new AbortController()
  const context = { signal: stop.signal } as HandlerContext<unknown>
  const hang = (_: readonly GuardEvent<unknown>[]) => new Promise<void>(() => undefined)
  void traced(hang, { tracerProvider })([], context)
  stop.abort(new RangeError('the deadline has passed'))
  expect(spans()[0]?.attributes['error.type']).toBe('RangeError')
})
