import { createBatchGuard, createGuard, type Delivery } from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'
import {
  context,
  diag,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { afterEach, describe, expect, test } from 'vitest'
import type { Sdk } from './fixtures/sdk.ts'
import { SDKS } from './fixtures/sdks.ts'
import { traced } from './traced.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PRODUCER = 'b7ad6b7169203331'
const TRACEPARENT = `00-${TRACE}-${PRODUCER}-01`
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

const newest = (): Sdk => (SDKS.at(-1) as (typeof SDKS)[number])[1]()
const options = () => ({ consumer: 'billing', inbox: memoryInbox(), logger: silent })
const fromKafka = (over: Partial<Delivery> = {}): Delivery =>
  toDelivery(
    { cents: 1 },
    { source: { broker: 'kafka', queue: 'orders', position: '3/42' }, ...over },
  )

afterEach(() => {
  trace.disable()
  context.disable()
  propagation.disable()
})

describe.each(SDKS)('with %s', (_, createSdk) => {
  test('a run is a consumer span with the names of the conventions, linked to its producer', async () => {
    const { spans, tracerProvider } = createSdk()
    const guard = createGuard(
      options(),
      traced(() => undefined, { tracerProvider }),
    )
    const headers = { 'idempotency-key': 'k', traceparent: TRACEPARENT, tracestate: 'vendor=1' }
    await guard.process(fromKafka({ headers }))
    await guard.close()
    const [span] = spans()
    expect(span).toMatchObject({
      name: 'process orders',
      kind: SpanKind.CONSUMER,
      status: { code: SpanStatusCode.UNSET },
      attributes: {
        'messaging.system.name': 'kafka',
        'messaging.destination.name': 'orders',
        'messaging.destination.partition.id': '3',
        'messaging.operation.name': 'process',
        'messaging.operation.type': 'process',
        'kafka.offset': 42,
        'onceward.attempt': 1,
        'onceward.event.id': expect.stringMatching(/^[0-9a-f-]{36}$/),
      },
    })
    const [link] = span?.links ?? []
    expect(link?.context).toMatchObject({
      ...{ traceId: TRACE, spanId: PRODUCER, traceFlags: 1, isRemote: true },
    })
    expect(link?.context.traceState?.serialize()).toBe('vendor=1')
  })

  test('the handler runs in its span, when the SDK was registered after the guard was made', async () => {
    const active: (Span | undefined)[] = []
    const seen = traced(async () => {
      await Promise.resolve()
      active.push(trace.getActiveSpan())
    })
    const guard = createGuard(options(), seen)
    const { contextManager, spans, tracerProvider } = createSdk()
    trace.setGlobalTracerProvider(tracerProvider)
    context.setGlobalContextManager(contextManager)
    await guard.process(fromKafka())
    await guard.close()
    expect(spans()).toHaveLength(1)
    expect(active[0]?.spanContext()).toEqual(spans()[0]?.spanContext())
    expect(spans()[0]?.links).toEqual([])
  })

  // Red when the header is lost, when it replaces one of the handler, or when `tx` is read for the handler.
  test('what a handler sends names its span, and the run of the receiver is linked to it', async () => {
    const { spans, tracerProvider } = createSdk()
    const inbox = memoryInbox()
    const own = { Traceparent: TRACEPARENT }
    const full = { to: 'mails', payload: Buffer.alloc(1024 * 1024) }
    const sender = createGuard(
      { consumer: 'billing', inbox, logger: silent },
      traced(
        (_event, context) => {
          expect(Object.keys(context)).toContain('tx')
          context.outbox.send({ to: 'mails', payload: {}, headers: { a: 'b' } })
          context.outbox.send({ to: 'mails', payload: {}, headers: own })
          context.outbox.send(full)
          expect(() => context.outbox.send({ ...full, to: '' })).toThrow('`to`')
        },
        { tracerProvider },
      ),
    )
    await sender.process(fromKafka())
    await sender.close()
    const sent = inbox.sent().map(({ headers }) => headers)
    const [span] = spans()
    const { spanId, traceId } = span?.spanContext() ?? {}
    expect(sent).toEqual([{ a: 'b', traceparent: `00-${traceId}-${spanId}-01` }, own, {}])
    const receiver = createGuard(
      options(),
      traced(() => undefined, { tracerProvider }),
    )
    const headers = { 'idempotency-key': 'mail-1', ...sent[0] }
    await receiver.process(fromKafka({ headers }))
    await receiver.close()
    expect(spans()[1]?.links.map((link) => link.context.spanId)).toEqual([spanId])
  })

  test('a failed run has the status and the exception, without what drivers keep in errors', async () => {
    const { spans, tracerProvider } = createSdk()
    const error = Object.assign(new TypeError('no such account'), {
      detail: 'Key (card)=(4111 1111) exists',
      parameters: ['4111 1111'],
    })
    const handlers = [
      () => {
        throw error
      },
      () => Promise.reject(error),
      () => Promise.reject('a text'),
    ]
    for (const handler of handlers) {
      const guard = createGuard(options(), traced(handler, { tracerProvider }))
      expect(await guard.process(fromKafka())).toMatchObject({ kind: 'defer', reason: 'failed' })
      await guard.close()
    }
    const [thrown, rejected, text] = spans()
    for (const span of [thrown, rejected]) {
      expect(span?.status).toEqual({ code: SpanStatusCode.ERROR, message: 'TypeError' })
      expect(span?.attributes['error.type']).toBe('TypeError')
      expect(span?.events).toMatchObject([
        {
          name: 'exception',
          attributes: {
            'exception.type': 'TypeError',
            'exception.message': 'no such account',
            'exception.stacktrace': expect.stringContaining('traced.test.ts'),
          },
        },
      ])
    }
    expect(text?.status.code).toBe(SpanStatusCode.ERROR)
    const told = spans().map(({ attributes, events, status }) => ({ attributes, events, status }))
    expect(JSON.stringify(told)).not.toContain('4111 1111')
  })

  test('a handler that ignores its deadline leaves no span open', async () => {
    const { spans, tracerProvider } = createSdk()
    let end: () => void = () => undefined
    const hanging = (): Promise<void> =>
      new Promise((resolve) => {
        end = resolve
      })
    const guard = createGuard(
      { ...options(), deadlineMs: 250 },
      traced(hanging, { tracerProvider }),
    )
    await guard.process(fromKafka())
    expect(spans()).toMatchObject([{ status: { code: SpanStatusCode.ERROR } }])
    end()
    await guard.close()
    expect(spans()).toHaveLength(1)
  })

  test('a batch is one span with a link for each event, and a destination if all have the same', async () => {
    const { spans, tracerProvider } = createSdk()
    const guard = createBatchGuard(
      options(),
      traced(() => undefined, { tracerProvider }),
    )
    const ids = ['1', '2', '3'].map((digit) => digit.repeat(16))
    const batch = ids.map((id, n) =>
      toDelivery(
        { n },
        {
          source: { broker: 'kafka', queue: 'orders', position: `0/${n}` },
          headers: { 'idempotency-key': id, traceparent: `00-${TRACE}-${id}-00` },
        },
      ),
    )
    await guard.processBatch(batch)
    const other = { source: { broker: 'kafka', queue: 'returns', position: '0/0' } }
    await guard.processBatch([toDelivery('a'), toDelivery('b', other)])
    await guard.close()
    const [one, mixed] = spans()
    expect(one).toMatchObject({
      name: 'process orders',
      attributes: { 'messaging.batch.message_count': 3 },
    })
    expect(one?.links.map((link) => link.context.spanId)).toEqual(ids)
    expect(one?.attributes).not.toHaveProperty('onceward.event.id')
    expect(mixed?.name).toBe('process')
    expect(mixed?.attributes).not.toHaveProperty('messaging.destination.name')
  })
})

test('the key, the payload and the message id are in no span', async () => {
  const { spans, tracerProvider } = SDKS[1]?.[1]() ?? {}
  const guard = createGuard(
    options(),
    traced(() => undefined, { tracerProvider }),
  )
  await guard.process(
    fromKafka({
      body: Buffer.from('"the-payload"'),
      messageId: 'the-key',
      orderingKey: 'the-lane',
    }),
  )
  await guard.close()
  const [{ attributes, name, links } = {}] = spans?.() ?? []
  expect(name).toBe('process orders')
  expect(JSON.stringify({ attributes, links })).not.toMatch(/the-/)
})

test('a tracer that throws does not fail the event', async () => {
  const tracerProvider = {
    getTracer: () => {
      throw new Error('misconfigured')
    },
  }
  let runs = 0
  const problems: unknown[] = []
  const told = (...args: readonly unknown[]): void => void problems.push(args[0])
  diag.setLogger({ error: told, warn: told, info: told, debug: told, verbose: told })
  problems.length = 0
  const guard = createGuard(
    options(),
    traced(
      () => {
        runs += 1
      },
      { tracerProvider },
    ),
  )
  expect(await guard.process(fromKafka())).toEqual({ kind: 'ack', by: 'processed' })
  expect(runs).toBe(1)
  expect(problems).toEqual(['onceward: a span could not be recorded'])
  diag.disable()
  await guard.close()
})

test('the result of the handler is what the guard stores', async () => {
  const guard = createGuard(
    options(),
    traced(async () => ({ charged: 5 })),
  )
  expect(await guard.process(fromKafka())).toMatchObject({ result: { charged: 5 } })
  await guard.close()
})

test.each([
  ['13/42', { 'messaging.destination.partition.id': '13', 'kafka.offset': 42 }],
  ['x3/42', {}],
  ['3/42x', {}],
  [undefined, {}],
])('the position %s on Kafka is partition and offset, or nothing', async (position, expected) => {
  const { spans, tracerProvider } = newest()
  const guard = createGuard(
    options(),
    traced(() => undefined, { tracerProvider }),
  )
  await guard.process(fromKafka({ source: { broker: 'kafka', queue: 'orders', position } }))
  await guard.process(fromKafka({ source: { broker: 'amqp', queue: 'q', position: '1/2' } }))
  await guard.close()
  const told = spans().map(({ attributes }) =>
    Object.fromEntries(
      Object.entries(attributes).filter(([name]) => /partition|offset/.test(name)),
    ),
  )
  expect(told).toEqual([expected, {}])
})

test('an error is told by its code if that is a text, and without a stack if it has none', async () => {
  const { spans, tracerProvider } = newest()
  const coded = Object.assign(new Error('busy'), { code: 'ECONNRESET' })
  const numbered = Object.assign(new Error('no'), { code: 7 })
  const bare = Object.assign(new Error('bare'), { stack: undefined })
  for (const error of [coded, numbered, bare]) {
    const fails = traced(() => Promise.reject(error), { tracerProvider })
    const guard = createGuard(options(), fails)
    await guard.process(fromKafka())
    await guard.close()
  }
  const types = spans().map(({ attributes }) => attributes['error.type'])
  expect(types).toEqual(['ECONNRESET', 'Error', 'Error'])
  const stacks = spans().map(
    ({ events }) => 'exception.stacktrace' in (events[0]?.attributes ?? {}),
  )
  expect(stacks).toEqual([true, true, false])
})

test('an unknown option is refused', () => {
  const wrong = { tracer: 1 } as unknown as { tracerProvider?: undefined }
  expect(() => traced(() => undefined, wrong)).toThrow(/traced does not know "tracer"/)
})
