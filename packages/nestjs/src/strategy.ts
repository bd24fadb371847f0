import {
  ConfigurationError,
  type DecodedDelivery,
  FatalError,
  type GuardEvent,
  type HandlerContext,
  type Logger,
} from '@onceward/core'
import type { Broker } from './brokers.ts'
import { RunningConsumer } from './consumer.ts'
import { OncewardContext } from './context.ts'
import { type Join, runJoined } from './join.ts'
import type { HandlerOptions } from './options.ts'
import { dataOf, patternsOf, routeOf } from './pattern.ts'
import { runWatched } from './witness.ts'

/** Options of {@link OncewardStrategy}: those of a guard, and these. */
export interface StrategyOptions<Place extends object, Payload = unknown, Decoded = Payload>
  extends HandlerOptions<Payload, Decoded> {
  /** Made by `kafkaBroker(kafka)` or one of its siblings. */
  readonly broker: Broker<Place>
  /** Where to read: the options of `consumeKafka` or its sibling. */
  readonly place: Place
  /**
   * Finds the pattern whose handlers run. Default: `pattern` of what Nest's clients send, the header `pattern`, the type of
   * a CloudEvent, the header or field `type`, `detail-type`, or the name of the topic or queue, whichever has a handler.
   */
  readonly pattern?:
    | ((delivery: DecodedDelivery<NoInfer<Decoded>>) => string | object | undefined)
    | undefined
  /** For a message whose pattern has no handler: dead-letter it (default), or acknowledge it without a record. */
  readonly unknown?: 'dead-letter' | 'skip' | undefined
  /** Takes the handlers with this transport alone, and those without one. Default: all. */
  readonly transportId?: symbol | number | undefined
}

type EventHandler = (data: unknown, context: OncewardContext) => unknown

/** What the module gives a strategy. */
interface Attached {
  readonly consume: boolean
  readonly join: readonly Join[]
  readonly logger: Logger | undefined
}

/**
 * Runs the `@EventPattern` handlers of controllers as the handlers of a guard, each message in a transaction of its own:
 * `app.connectMicroservice({ strategy: new OncewardStrategy({ … }) })`. Handlers get the data of the message, and as
 * `@Ctx()` an {@link OncewardContext}. Several handlers of one pattern run one after the other in one transaction.
 * `@MessagePattern` is refused, because nobody waits for its answer.
 *
 * The application must import `OncewardModule`: without it the errors of handlers have lost their class.
 */
export class OncewardStrategy<Place extends object = never, Payload = unknown, Decoded = Payload> {
  /** Read by Nest. */
  readonly transportId?: symbol | number
  /** Read by Nest 12: errors of handlers are ours, and Nest need not log them. */
  readonly propagatesEventHandlerErrors = true
  /** Not for users: see `OncewardConsumers.get`. */
  readonly consumer: RunningConsumer
  readonly #options: StrategyOptions<Place, Payload, Decoded>
  readonly #handlers = new Map<string, EventHandler[]>()
  readonly #refused: string[] = []
  #attached: Attached | undefined

  constructor(options: StrategyOptions<Place, Payload, Decoded>) {
    this.#options = options
    if (options.transportId !== undefined) this.transportId = options.transportId
    this.consumer = this.#createConsumer()
  }

  #createConsumer(): RunningConsumer {
    const { broker, pattern, place, transportId, unknown, ...guard } = this.#options
    const isUnknown = (delivery: DecodedDelivery<unknown>): boolean =>
      this.#routeOf(delivery) === undefined
    const skipsUnknown = unknown === 'skip' && {
      skip: (delivery: DecodedDelivery<Decoded>) =>
        guard.skip?.(delivery) === true || isUnknown(delivery),
    }
    const strategy = this
    return new RunningConsumer({
      ...{ name: guard.consumer, place, isBatch: false, broker: broker as unknown as Broker },
      // Read when the guard is made: the module may have given a logger by then.
      get guard() {
        const logger = strategy.#attached?.logger
        return { ...(logger !== undefined && { logger }), ...guard, ...skipsUnknown }
      },
      run: ([event], context) => this.#run(event as GuardEvent<unknown>, context),
    })
  }

  /** Called by the module. */
  attach(attached: Attached): void {
    this.#attached = attached
  }

  /** Called by Nest for each handler. */
  addHandler(pattern: unknown, handler: EventHandler, isEventHandler = false): void {
    const route = routeOf(pattern)
    if (!isEventHandler) this.#refused.push(route)
    const handlers = this.#handlers.get(route) ?? []
    this.#handlers.set(route, [...handlers, handler])
  }

  /** Called by Nest. Starts to consume, unless the module has `consume: false`. */
  listen(callback: (error?: unknown) => void): void {
    this.#listen().then(() => callback(), callback)
  }

  async #listen(): Promise<void> {
    const [refused] = this.#refused
    if (refused !== undefined) {
      throw new ConfigurationError(
        `The handler of \`${refused}\` has @MessagePattern, whose sender waits for an answer. Use @EventPattern, or give it the transport that it answers on and the strategy a \`transportId\`.`,
      )
    }
    if (this.#attached === undefined) {
      throw new ConfigurationError(
        'OncewardStrategy needs OncewardModule in the imports of the application: Nest replaces the errors of handlers, so a FatalError would be retried.',
      )
    }
    if (this.#attached.consume) await this.consumer.start()
  }

  /** Called by Nest and by the module, whichever is first: drains. */
  close(): Promise<void> {
    return this.consumer.drain()
  }

  /** Called by Nest for listeners of the transport: there are none. */
  on(): void {}

  /** Called by Nest for the client of the transport: it belongs to the broker. */
  unwrap(): never {
    throw new ConfigurationError(
      'OncewardStrategy has no client: keep the one that you gave to its broker.',
    )
  }

  #routeOf(delivery: DecodedDelivery<unknown>): string | undefined {
    return this.#candidates(delivery).find((route) => this.#handlers.has(route))
  }

  #candidates(delivery: DecodedDelivery<unknown>): readonly string[] {
    const { pattern } = this.#options
    if (pattern === undefined) return patternsOf(delivery)
    const found = pattern(delivery as DecodedDelivery<NoInfer<Decoded>>)
    return found === undefined ? [] : [routeOf(found)]
  }

  async #run(event: GuardEvent<unknown>, given: HandlerContext<unknown>): Promise<unknown> {
    const route = this.#routeOf(event)
    if (route === undefined) {
      const found = this.#candidates(event).join(', ') || 'none'
      throw new FatalError(`No @EventPattern handler has the pattern of the message: ${found}.`)
    }
    const { consumer } = this.#options
    const context = new OncewardContext(given, { consumer, events: [event], pattern: route })
    return runJoined(this.#attached?.join ?? [], given, async () => {
      let result: unknown
      for (const handler of this.#handlers.get(route) ?? []) {
        result = await runWatched(() => handler(dataOf(event.payload), context))
      }
      return result
    })
  }
}
