import { ConfigurationError, type GuardEvent, type HandlerContext } from '@onceward/core'
import { describeError, refuseUnknownNames } from '@onceward/core/adapter'
import {
  type Attributes,
  context,
  diag,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import { CONVENTIONS, OWN, PROCESS } from './names.ts'
import { producerLinks } from './producer-context.ts'
import { sendingContext } from './sending-context.ts'
import { destinationName, sourceAttributes } from './sources.ts'
import { SCHEMA_URL, SCOPE, VERSION } from './version.ts'

/** Options of {@link traced}. */
export interface TracedOptions {
  /** Where the spans go. Default: the provider that is registered globally, also when that happens later. */
  readonly tracerProvider?: TracerProvider | undefined
}

const NAMES = { tracerProvider: true } as const

type Event = GuardEvent<unknown>
type Given = Event | readonly Event[]
// biome-ignore lint/suspicious/noConfusingVoidType: the result of a handler of `createBatchGuard`
type Nothing = void | Promise<unknown>
/**
 * The first parameter of a handler whose guard has no schema, so that nothing else gives its type. The guards expect
 * different results: a handler of `createBatchGuard` returns nothing, so it takes a list.
 */
type Untyped<Result> = [Nothing] extends [Result]
  ? [Result] extends [Nothing]
    ? readonly Event[]
    : Event
  : Given

/**
 * Wraps a handler in a consumer span `process {destination}` that is linked to the span which sent the message. Also for
 * the handlers of `createBatchGuard`: one span for each call, with a link for each event. Types are inferred as without
 * it: `createGuard(options, traced(async (event, { tx }) => { … }))`. Only the payload of a guard with `decode` and no
 * schema has to be named: `traced(async (event: GuardEvent<Order>) => { … })`.
 *
 * Messages that the handler sends through its outbox carry the span as `traceparent`, unless they have one.
 *
 * A handler that throws sets the span's status and records the exception, with its type, message and stack, and nothing
 * else of it. The span ends with the handler, or when the handler's signal aborts; the commit comes afterwards.
 *
 * @throws {@link ConfigurationError}
 *
 * @example
 * ```ts
 * import { createGuard } from '@onceward/core'
 * import { meterObserver, traced } from '@onceward/otel'
 *
 * const audit = createGuard(
 *   { consumer: 'audit', inbox, observe: meterObserver() },
 *   traced(async ({ key }, { tx }) => {
 *     await tx.query('insert into audit_log (key) values ($1)', [key])
 *   }),
 * )
 * ```
 */
export function traced<
  Result,
  Events extends Given = Untyped<Result>,
  Context extends Pick<HandlerContext<unknown>, 'signal'> = HandlerContext<unknown>,
>(
  handler: (events: Events, context: Context) => Result,
  options: TracedOptions = {},
): (events: Events, context: Context) => Result {
  refuseUnknownNames('traced', options, NAMES)
  // The guard would see a function, and every event would fail.
  if (typeof handler !== 'function') {
    throw new ConfigurationError(
      `Expected a handler as the first argument of traced, got ${handler === null ? 'null' : typeof handler}. Write \`traced(async (event, { tx }) => { … })\`.`,
    )
  }
  return (events, handlerContext) => {
    const span = quietly(() => startSpan(tracerOf(options), events))
    if (span === undefined) return handler(events, handlerContext)
    const end = endOnce(span, handlerContext.signal)
    try {
      const active = trace.setSpan(context.active(), span)
      const sending = quietly(() => sendingContext(handlerContext, span)) ?? handlerContext
      const result = context.with(active, () => handler(events, sending))
      if (!isThenable(result)) {
        end()
        return result
      }
      // The guard gets the same promise: a query builder of some libraries runs its query at each `then`.
      const running = Promise.resolve(result)
      running.then(
        () => end(),
        (error: unknown) => end({ error }),
      )
      return running as Result
    } catch (error) {
      end({ error })
      throw error
    }
  }
}

/** Asked for each run: a provider that is registered later is found. */
const tracerOf = ({ tracerProvider }: TracedOptions): Tracer =>
  (tracerProvider ?? trace.getTracerProvider()).getTracer(SCOPE, VERSION, { schemaUrl: SCHEMA_URL })

function startSpan(tracer: Tracer, given: Given): Span {
  const events: readonly Event[] = 'source' in given ? [given] : given
  const sources = events.map(({ source }) => source)
  const [first] = sources
  // A batch may hold messages of several topics. Then its span has no destination.
  const source = sources.every(({ queue }) => queue === first?.queue) ? first : undefined
  const name = source === undefined ? PROCESS : `${PROCESS} ${destinationName(source)}`
  return tracer.startSpan(name, {
    kind: SpanKind.CONSUMER,
    links: producerLinks(events),
    attributes: {
      ...(source === undefined ? {} : sourceAttributes(source)),
      [CONVENTIONS.operation]: PROCESS,
      [CONVENTIONS.operationType]: PROCESS,
      ...('source' in given ? eventAttributes(given) : { [CONVENTIONS.batchSize]: events.length }),
    },
  })
}

/** No message id: it may be the event's key. */
function eventAttributes({ attempt, idempotencyKey, source }: Event): Attributes {
  const [, partition, offset] =
    source.broker === 'kafka' ? (/^(\d+)\/(\d+)$/.exec(source.position ?? '') ?? []) : []
  return {
    [OWN.eventId]: idempotencyKey,
    [OWN.attempt]: attempt,
    ...(partition === undefined ? {} : { [CONVENTIONS.partition]: partition }),
    ...(offset === undefined ? {} : { [CONVENTIONS.kafkaOffset]: Number(offset) }),
  }
}

type End = (failure?: { readonly error: unknown }) => void

/** A handler that never ends must not keep its span: the span ends when the signal aborts. */
function endOnce(span: Span, signal: AbortSignal): End {
  let isEnded = false
  const end: End = (failure) => {
    if (isEnded) return
    isEnded = true
    signal.removeEventListener('abort', onAbort)
    quietly(() => {
      if (failure !== undefined) recordFailure(span, failure.error)
      span.end()
    })
  }
  const onAbort = (): void => end({ error: signal.reason })
  signal.addEventListener('abort', onAbort, { once: true })
  return end
}

function recordFailure(span: Span, thrown: unknown): void {
  const { code, message, name, stack } = describeError(thrown)
  const type = typeof code === 'string' ? code : name
  span.setAttribute(CONVENTIONS.errorType, type)
  span.recordException({ name, message, ...(stack === undefined ? {} : { stack }) })
  span.setStatus({ code: SpanStatusCode.ERROR, message: name })
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  )
}

/** What fails while a span is made must not fail the event. */
function quietly<Value>(work: () => Value): Value | undefined {
  try {
    return work()
  } catch (error) {
    diag.error('onceward: a span could not be recorded', error)
    return undefined
  }
}
