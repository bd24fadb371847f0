import type { Delivery } from '@onceward/core'
import { type Guard, registerEnvelopeReader, withEnvelope } from '@onceward/core/adapter'
import { fieldsOf, toDate } from './fields.ts'
import {
  createInvoke,
  eventSourceOf,
  type LambdaContext,
  throwIfUnfinished,
  wrongEvent,
} from './invocation.ts'
import type { LambdaEventBridgeOptions } from './options.ts'

/** A function that a rule of EventBridge invokes. */
export type LambdaEventBridgeHandler = (event: object, context?: LambdaContext) => Promise<void>

/**
 * The guard as a Lambda function that a rule of EventBridge invokes: `export const handler = lambdaEventBridge(billing)`.
 *
 * The body is the whole event, also where the rule transforms its input; `decode: unwrapEventBridge()` makes its `detail`
 * the payload. The `id` of the event is the event key. Throws if the event is not done, and Lambda tries again, by default
 * twice and for six hours at most: configure an on-failure destination, or put a queue in between.
 *
 * @throws {@link ConfigurationError} here for options that cannot work; by the function for a value that is not an event.
 *
 * @example
 * ```ts
 * import { lambdaEventBridge } from '@onceward/lambda'
 *
 * export const handler = lambdaEventBridge(billing)
 * ```
 */
export function lambdaEventBridge(
  guard: Guard,
  options: LambdaEventBridgeOptions = {},
): LambdaEventBridgeHandler {
  const invoke = createInvoke('lambdaEventBridge', guard, options)
  return async (event, context) => {
    if (typeof event !== 'object' || event === null || Array.isArray(event)) {
      throw wrongEvent('lambdaEventBridge', 'an event of EventBridge')
    }
    if ('Records' in event || isOfEventSource(event)) {
      throw wrongEvent('lambdaEventBridge', 'an event without `Records`', event)
    }
    throwIfUnfinished(await invoke([toDelivery(event)], context))
  }
}

/** A rule may transform its input into anything, so other sources are known by their own marks alone. */
function isOfEventSource(event: object): boolean {
  const source = eventSourceOf(event)
  return source !== undefined && ('records' in event || /^aws:[a-z]/.test(source))
}

function toDelivery(event: object): Delivery {
  const { id, source, time } = fieldsOf(event)
  const messageId = typeof id === 'string' ? id : undefined
  return withEnvelope(
    {
      body: Buffer.from(JSON.stringify(event), 'utf8'),
      headers: {},
      source: {
        broker: 'eventbridge',
        queue: typeof source === 'string' ? source : 'unknown',
        position: messageId,
      },
      contentType: 'application/json',
      messageId,
      producedAt: toDate(time),
      // Lambda does not say whether it invokes the function for the first time.
      redelivered: true,
      raw: event,
    },
    // The body holds the whole event.
    () => ({}),
  )
}

registerEnvelopeReader('eventbridge', ({ body }): unknown =>
  JSON.parse(Buffer.from(body).toString('utf8')),
)
