import type { ExecutionContext } from '@nestjs/common'
import type { GuardEvent, HandlerContext, Logger, Outbox } from '@onceward/core'

/** The type of the execution contexts in which `@Consume` handlers run: `context.getType()`. */
export const CONTEXT_TYPE = 'onceward'

/**
 * What a handler knows of the delivery that it runs for: the second argument of a `@Consume` handler's execution context,
 * the context (`@Ctx()`) of an `@EventPattern` handler, and the request (`REQUEST`) of a request-scoped provider.
 */
export class OncewardContext<Tx = unknown> implements HandlerContext<Tx> {
  /** Name of the consumer. */
  readonly consumer: string
  /** The events of this run: one, unless the handler has `@ConsumeBatch`. */
  readonly events: readonly GuardEvent<unknown>[]
  /** The pattern whose `@EventPattern` handlers run. None for `@Consume`. */
  readonly pattern: string | undefined
  readonly #given: HandlerContext<Tx>

  constructor(
    given: HandlerContext<Tx>,
    run: Pick<OncewardContext, 'consumer' | 'events'> & { readonly pattern?: string },
  ) {
    this.consumer = run.consumer
    this.events = run.events
    this.pattern = run.pattern
    this.#given = given
  }

  get tx(): Tx {
    return this.#given.tx
  }

  get signal(): AbortSignal {
    return this.#given.signal
  }

  get deadlineAt(): Date {
    return this.#given.deadlineAt
  }

  get logger(): Logger {
    return this.#given.logger
  }

  get outbox(): Outbox {
    return this.#given.outbox
  }

  get defer(): HandlerContext<Tx>['defer'] {
    return this.#given.defer
  }

  get pauseFor(): HandlerContext<Tx>['pauseFor'] {
    return this.#given.pauseFor
  }

  /** The event of this run: of a batch, its first. */
  get event(): GuardEvent<unknown> {
    const [event] = this.events
    if (event === undefined) throw new Error('A run has at least one event.')
    return event
  }

  /** As Nest's own contexts of messages have it. */
  getPattern(): string | undefined {
    return this.pattern
  }
}

/**
 * Whether a guard, an interceptor or a filter runs for a message of onceward, so that those made for requests can let it
 * pass.
 *
 * @param context - What Nest hands over.
 */
export function isOncewardContext(context: Pick<ExecutionContext, 'getArgs'>): boolean {
  return oncewardContextOf(context) !== undefined
}

export function oncewardContextOf(
  context: Pick<ExecutionContext, 'getArgs'>,
): OncewardContext | undefined {
  return context
    .getArgs<unknown[]>()
    .find((each): each is OncewardContext => each instanceof OncewardContext)
}
