import type { GuardEvent } from '@onceward/core'
import {
  createTraceState,
  isSpanContextValid,
  type Link,
  propagation,
  ROOT_CONTEXT,
  type SpanContext,
  type TextMapGetter,
  TraceFlags,
  trace,
} from '@opentelemetry/api'

type Event = Pick<GuardEvent<unknown>, 'headers' | 'raw'>

/** Version, trace id, span id and flags; later versions may add fields (W3C Trace Context). */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** A link to the span that sent the message, if the message names one. */
export function producerLinks(events: readonly Event[]): Link[] {
  return events.flatMap((event) => {
    const context = producerContext(event)
    return context === undefined ? [] : [{ context }]
  })
}

/**
 * Read by the registered propagator. If none is registered, or it finds nothing, `traceparent` and `tracestate` are read
 * here, because a program may export spans without having registered a propagator.
 */
function producerContext(event: Event): SpanContext | undefined {
  const carried = trace.getSpanContext(propagation.extract(ROOT_CONTEXT, event, HEADERS))
  if (carried !== undefined && isSpanContextValid(carried)) return carried
  const [, version, traceId = '', spanId = '', flags = '', more] =
    TRACEPARENT.exec(headerOf(event, 'traceparent')?.trim() ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return
  const state = headerOf(event, 'tracestate')
  const context: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    isRemote: true,
    ...(state === undefined ? {} : { traceState: createTraceState(state) }),
  }
  return isSpanContextValid(context) ? context : undefined
}

const HEADERS: TextMapGetter<Event> = {
  keys: ({ headers }) => Object.keys(headers),
  get: (event, name) => headerOf(event, name),
}

const utf8 = new TextDecoder()

/** Of a header in bytes, Kafka's and AMQP's are text already. A binary attribute of SQS is only in the message itself. */
function headerOf({ headers, raw }: Event, name: string): string | undefined {
  const lowerCased = name.toLowerCase()
  if (Object.hasOwn(headers, lowerCased)) return headers[lowerCased]
  const attributes: unknown = Reflect.get(Object(raw), 'MessageAttributes')
  const attribute: unknown = Reflect.get(Object(attributes), name)
  const bytes: unknown = Reflect.get(Object(attribute), 'BinaryValue')
  return bytes instanceof Uint8Array ? utf8.decode(bytes) : undefined
}
