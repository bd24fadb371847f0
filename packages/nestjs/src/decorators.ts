import {
  createParamDecorator,
  type ExecutionContext,
  type NestInterceptor,
  type PipeTransform,
  type Type,
  UseInterceptors,
} from '@nestjs/common'
import { ConfigurationError } from '@onceward/core'
import { defaultIfEmpty } from 'rxjs'
import type { Place } from './brokers.ts'
import { type OncewardContext, oncewardContextOf } from './context.ts'
import type { BatchOptions, HandlerOptions } from './options.ts'

const CONSUMERS = 'onceward:consumers'

/** Of a method: what its decorator was given. */
export interface ConsumerMark {
  /** None: the method has `@OnceAt`, and nothing is consumed. */
  readonly broker: string | undefined
  readonly options: Readonly<Record<string, unknown>> & { readonly consumer: string }
  readonly isBatch: boolean
}

/** @returns One for each decorator of the method. */
export const marksOf = (method: object): readonly ConsumerMark[] =>
  (Reflect.getMetadata(CONSUMERS, method) as readonly ConsumerMark[] | undefined) ?? []

/** A stream of no value is a handler that returns nothing: Nest would throw. */
const emptyIsNothing: NestInterceptor = {
  intercept: (_, next) => next.handle().pipe(defaultIfEmpty(undefined)),
}

/**
 * Makes the method of a provider the handler of a consumer, in a transaction of its own for each event: the method runs
 * with the guards, pipes and interceptors of Nest. Exception filters are left out, so that errors decide about retries.
 *
 * @param broker - Its name in `brokers` of the module.
 * @param options - The options of a guard, and those of the broker's `consumeSqs` or sibling. The module's `inbox` and
 * `logger` are the defaults.
 *
 * @example
 * ```ts
 * import type { GuardEvent, Outbox } from '@onceward/core'
 * import { Consume, Event, Send, Tx } from '@onceward/nestjs'
 * import type { EntityManager } from 'typeorm'
 *
 * class Billing {
 *   @Consume('sqs', { consumer: 'billing', queueUrl, schema: OrderPlaced })
 *   async charge(
 *     @Event() { payload }: GuardEvent<{ orderId: string }>,
 *     @Tx() tx: EntityManager,
 *     @Send() outbox: Outbox,
 *   ) {
 *     await tx.query('insert into charges (order_id) values ($1)', [payload.orderId])
 *     outbox.send({ to: 'receipts', key: payload.orderId, payload })
 *   }
 * }
 * ```
 */
export function Consume<Decoded = unknown, Payload = Decoded>(
  broker: string,
  options: HandlerOptions<Payload, Decoded> & Place,
): MethodDecorator {
  return mark({ broker, options, isBatch: false })
}

/** As {@link Consume}, for a method that gets the events of a transaction together: `@Event() events: GuardEvent<Order>[]`. */
export function ConsumeBatch<Decoded = unknown, Payload = Decoded>(
  broker: string,
  options: BatchOptions<Payload, Decoded> & Place,
): MethodDecorator {
  return mark({ broker, options, isBatch: true })
}

/** Notes for the module that a method is the handler of a consumer. */
export function mark(
  given: Omit<ConsumerMark, 'options'> & { readonly options: object },
): (target: object, key: string | symbol, descriptor: PropertyDescriptor) => void {
  return (target: object, key: string | symbol, descriptor: PropertyDescriptor): void => {
    const method: object = descriptor.value
    const marks = marksOf(method)
    Reflect.defineMetadata(CONSUMERS, [...marks, given as ConsumerMark], method)
    if (marks.length === 0) UseInterceptors(emptyIsNothing)(target, key, descriptor)
  }
}

type ParameterOf = (
  ...pipes: readonly (PipeTransform | Type<PipeTransform>)[]
) => ParameterDecorator

export const parameter = (name: string, read: (context: OncewardContext) => unknown): ParameterOf =>
  createParamDecorator((_: unknown, host: ExecutionContext) => {
    const context = oncewardContextOf(host)
    if (context !== undefined) return read(context)
    throw new ConfigurationError(
      `@${name}() is for methods with @Consume, @ConsumeBatch, or @EventPattern behind an OncewardStrategy: another transport has called this one.`,
    )
  })

const BATCH = new WeakSet<OncewardContext>()

/** Says that `@Event()` is the list of the events. */
export const asBatch = (context: OncewardContext): OncewardContext => {
  BATCH.add(context)
  return context
}

/** The event, a `GuardEvent`; with `@ConsumeBatch` all events. Pipes are applied to it. */
export const Event: ParameterOf = parameter('Event', (context) =>
  BATCH.has(context) ? context.events : context.event,
)

/** The transaction of the run, which has the type of the inbox. `undefined` without an inbox. */
export const Tx: () => ParameterDecorator = parameter('Tx', ({ tx }) => tx)

/** The `Outbox` of the run: what it sends leaves with the commit. */
export const Send: () => ParameterDecorator = parameter('Send', ({ outbox }) => outbox)

/** The `AbortSignal` of the run: aborted at its deadline, and when a drain runs out of time. */
export const Signal: () => ParameterDecorator = parameter('Signal', ({ signal }) => signal)
