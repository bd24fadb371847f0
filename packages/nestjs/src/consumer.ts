import {
  ConfigurationError,
  type Consumption,
  createBatchGuard,
  createGuard,
  type Delivery,
  type Guard,
  type GuardEvent,
  type HandlerContext,
  type Health,
  type OnceCall,
  once,
  type Settlement,
} from '@onceward/core'
import { toDelivery } from '@onceward/core/memory'
import type { Broker } from './brokers.ts'

/** A consumer of the application. */
export interface OncewardConsumer {
  readonly name: string
  /**
   * Runs the handler for a message that no broker has brought, with the module's inbox, and answers how a broker would be
   * told. For tests, and for operators. Each call makes another event, unless the key is in the payload or the headers.
   *
   * @param payload - Becomes JSON.
   * @param overrides - Other fields of the delivery, such as `headers`. The name of a header is in lower case.
   */
  deliver(payload: unknown, overrides?: Partial<Delivery>): Promise<Settlement>
  /** The same message two times, one after the other, as brokers do: the second one must have no effect. */
  deliverTwice(
    payload: unknown,
    overrides?: Partial<Delivery>,
  ): Promise<readonly [Settlement, Settlement]>
  /** How the consumption is. `undefined`: it has not started, or this process does not consume. */
  health(): Health | undefined
}

/** What the module makes a consumer of. */
export interface ConsumerParts {
  readonly name: string
  readonly guard: Readonly<Record<string, unknown>>
  readonly place: object
  /** None: nothing is consumed, and the handler runs when the application says so. */
  readonly broker: Broker | undefined
  readonly isBatch: boolean
  /** Runs the handler of the application. */
  readonly run: (
    events: readonly GuardEvent<unknown>[],
    context: HandlerContext<unknown>,
  ) => Promise<unknown>
}

/** The life of a consumer: its guard is made when it is first needed. */
export class RunningConsumer implements OncewardConsumer {
  readonly name: string
  readonly #parts: ConsumerParts
  #guard: Guard | undefined
  #consumption: Consumption | undefined
  #starting: Promise<void> | undefined
  #ended: Promise<void> | undefined

  constructor(parts: ConsumerParts) {
    this.name = parts.name
    this.#parts = parts
  }

  /** @throws {@link ConfigurationError} for options that cannot work. */
  start(): Promise<void> {
    this.#starting ??= this.#start()
    return this.#starting
  }

  async #start(): Promise<void> {
    const { broker, place } = this.#parts
    if (broker === undefined) return
    const consumption = await broker.consume(this.#openGuard(), place as never)
    this.#consumption = consumption
    // The log has it, and health says so.
    consumption.stopped.catch(() => undefined)
  }

  /** Ends running handlers and gives back what was not started. Once; never rejects. */
  drain(): Promise<void> {
    this.#ended ??= this.#drain()
    return this.#ended
  }

  async #drain(): Promise<void> {
    await this.#starting?.catch(() => undefined)
    await this.#consumption?.drain()
    await this.#guard?.close()
  }

  health(): Health | undefined {
    return this.#consumption?.health()
  }

  async deliver(payload: unknown, overrides?: Partial<Delivery>): Promise<Settlement> {
    return this.#openGuard().process(toDelivery(payload, overrides))
  }

  async deliverTwice(
    payload: unknown,
    overrides?: Partial<Delivery>,
  ): Promise<readonly [Settlement, Settlement]> {
    const delivery = toDelivery(payload, overrides)
    const guard = this.#openGuard()
    return [await guard.process(delivery), await guard.process(delivery)]
  }

  /** Runs the handler now, at most once for each key among all processes. */
  async once(call: OnceCall<unknown>): Promise<unknown> {
    return once(this.#openGuard(), call)
  }

  #openGuard(): Guard {
    if (this.#ended !== undefined) {
      throw new ConfigurationError(`The consumer ${this.name} has ended with its application.`)
    }
    this.#guard ??= this.#createGuard()
    return this.#guard
  }

  #createGuard(): Guard {
    const { guard, isBatch, run } = this.#parts
    // Their names and values are checked there.
    const options = guard as never
    if (isBatch)
      return createBatchGuard<unknown>(options, (events, context) => run(events, context))
    return createGuard<unknown>(options, (event, context) => run([event], context))
  }
}
