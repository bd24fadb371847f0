import type { HandlerContext, Outbox } from '@onceward/core'
import { isSpanContextValid, type Span, TraceFlags } from '@opentelemetry/api'

/** The context of a handler whose messages of the outbox name the span that has sent them, as W3C Trace Context does. */
export function sendingContext<Context extends object>(context: Context, span: Span): Context {
  const outbox = Reflect.get(context, 'outbox') as HandlerContext<unknown>['outbox'] | undefined
  const spanContext = span.spanContext()
  if (outbox === undefined || !isSpanContextValid(spanContext)) return context
  const { spanId, traceFlags, traceId } = spanContext
  const flags = (traceFlags & TraceFlags.SAMPLED).toString(16).padStart(2, '0')
  const sending = traceable(outbox, `00-${traceId}-${spanId}-${flags}`)
  const own = { value: sending, enumerable: true }
  // Not a copy of the values: reading `tx` tells the guard that the handler uses it.
  const descriptors = { ...Object.getOwnPropertyDescriptors(context), outbox: own }
  return Object.defineProperties({}, descriptors) as Context
}

function traceable(outbox: Outbox, traceparent: string): Outbox {
  return {
    send: (message) => {
      const { headers = {} } = Object(message) as { headers?: Readonly<Record<string, string>> }
      const names = Object.keys(Object(headers)).map((name) => name.toLowerCase())
      if (names.includes('traceparent')) return outbox.send(message)
      try {
        outbox.send({ ...message, headers: { ...headers, traceparent } })
      } catch {
        // A message that is full without the header leaves without it. One that cannot be sent throws its own error.
        outbox.send(message)
      }
    },
  }
}
