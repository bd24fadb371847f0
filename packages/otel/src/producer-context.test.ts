import { toDelivery } from '@onceward/core/memory'
import {
  type Context,
  propagation,
  ROOT_CONTEXT,
  type TextMapGetter,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api'
import { afterEach, expect, test } from 'vitest'
import { producerLinks } from './producer-context.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
const SENT = `00-${TRACE}-${SPAN}-01`

afterEach(() => propagation.disable())

const spansOf = (headers: Readonly<Record<string, string | undefined>>, raw?: unknown) =>
  producerLinks([toDelivery({}, { headers, raw })]).map(({ context }) => context.spanId)

test.each([
  ['a usual header', SENT],
  ['one of a later version with more fields', `01-${TRACE}-${SPAN}-01-more`],
  ['one with white space around it', ` ${SENT}\n`],
])('%s names the producer', (_, traceparent) => {
  expect(spansOf({ traceparent })).toEqual([SPAN])
})

test.each([
  ['none', undefined],
  ['an empty one', ''],
  ['another text', 'no trace'],
  ['capitals', SENT.toUpperCase()],
  ['the version that never is', `ff-${TRACE}-${SPAN}-01`],
  ['a version 0 with more fields', `${SENT}-more`],
  ['text before it', `x${SENT}`],
  ['text behind it', `${SENT}x`],
  ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
  ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
])('%s links nothing', (_, traceparent) => {
  expect(spansOf({ traceparent })).toEqual([])
})

test('the state of the vendors is in the link, if there is one', () => {
  const stateOf = (tracestate?: string) =>
    producerLinks([toDelivery({}, { headers: { traceparent: SENT, tracestate } })])[0]?.context
  expect(stateOf('vendor=1')?.traceState?.serialize()).toBe('vendor=1')
  expect(stateOf()).not.toHaveProperty('traceState')
})

test('of the flags only the sampled one is kept', () => {
  const flagsOf = (flags: string) =>
    producerLinks([toDelivery({}, { headers: { traceparent: SENT.replace(/01$/, flags) } })])[0]
      ?.context.traceFlags
  expect(['00', '01', 'ff', 'fe'].map(flagsOf)).toEqual([0, 1, 1, 0])
})

test('the registered propagator decides, whatever its headers are called', () => {
  const other: TextMapPropagator = {
    fields: () => ['b3'],
    inject: () => undefined,
    extract: (context: Context, carrier: unknown, getter: TextMapGetter) => {
      const name = getter.keys(carrier).find((key) => key === 'b3') ?? ''
      const spanId = String(getter.get(carrier, name.toUpperCase()))
      return trace.setSpanContext(context, { traceId: TRACE, spanId, traceFlags: 1 })
    },
  }
  propagation.setGlobalPropagator(other)
  expect(ROOT_CONTEXT).toBeDefined()
  expect(spansOf({ b3: '1111111111111111', traceparent: SENT })).toEqual(['1111111111111111'])
  // An id of zeros names no span, so the propagator's answer is not used.
  expect(spansOf({ b3: '0000000000000000', traceparent: SENT })).toEqual([SPAN])
})
