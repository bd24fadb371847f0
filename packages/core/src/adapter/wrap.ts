import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { byOrderingKey, type Delivered, toBatches } from '../flow/ordering.ts'
import { processAndSettle } from '../flow/process-and-settle.ts'
import { pauseOf } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import {
  type ConsumerLoop,
  type Consumption,
  type ConsumptionOptions,
  type LoopSignals,
  type Receiving,
  Running,
} from './consumption.ts'
import type { WrapOutage } from './health.ts'
import type { RunSettings } from './run-options.ts'

/** What a wrap carries as `consumption`: the loop is the user's, so nothing of it starts or stops. */
export type WrappedConsumption = Pick<Consumption, 'drain' | 'health'>

/** What the adapter of a wrap brings. */
export interface WrappedLoop<Wrapped extends object>
  extends Pick<ConsumerLoop, 'dispatcher' | 'settling' | 'finish'> {
  /** What the user gets. */
  readonly wrapped: Wrapped
  readonly outage?: WrapOutage | undefined
}

export interface WrapSignals extends Pick<LoopSignals, 'stop' | 'abort'> {
  /** The broker has answered, or a message was settled. */
  readonly progressed: () => void
}

export interface WrapOptions<Wrapped extends object>
  extends Pick<ConsumptionOptions, 'port' | 'drainMs' | 'queue' | 'describe'> {
  readonly createLoop: (signals: WrapSignals) => WrappedLoop<Wrapped>
}

/** Gives a wrap its `consumption`: health, and a drain before which its user stops receiving. */
export function withConsumption<Wrapped extends object>(
  options: WrapOptions<Wrapped>,
): Wrapped & { readonly consumption: WrappedConsumption } {
  const consumption = new Running({
    ...options,
    signal: undefined,
    createLoop: (signals) => {
      const receiver = new UsersReceiver(options)
      const loop = options.createLoop({ ...signals, progressed: () => receiver.progressed() })
      receiver.loop = loop
      return { ...loop, receiver }
    },
  })
  return Object.assign(consumption.loop.wrapped, { consumption })
}

/** The loop that receives is the user's. */
class UsersReceiver implements Receiving {
  lastProgressAt: Date | undefined
  loop: Pick<WrappedLoop<object>, 'outage'> | undefined
  readonly #options: Pick<ConsumptionOptions, 'port' | 'describe'>

  constructor(options: Pick<ConsumptionOptions, 'port' | 'describe'>) {
    this.#options = options
  }

  get outage() {
    const { port, describe } = this.#options
    const pause = pauseOf(port)
    const outage = this.loop?.outage
    if (outage?.state === 'stopped' || pause === undefined) return outage
    return { state: 'paused' as const, reason: describe(pause.error) }
  }

  progressed(): void {
    this.lastProgressAt = new Date(this.#options.port.runtime.now())
  }

  async start(): Promise<void> {}

  stop(): void {}
}

/** What an adapter brings whose user receives messages by itself. */
export interface WrapMessagesOptions<Message, Each extends Delivered>
  extends Omit<WrapOptions<object>, 'createLoop' | 'drainMs'>,
    Pick<ConsumerLoop, 'settling' | 'finish'> {
  readonly settings: Pick<RunSettings, 'batchSize' | 'drainMs'>
  /** Takes received messages. @throws {@link ConfigurationError} before any of them is started. */
  readonly accept: (messages: readonly Message[]) => readonly Each[]
  /** Carries out a settlement with the broker. Must neither throw nor reject. */
  readonly settle: (each: Each, settlement: Settlement) => MaybeAsync<unknown>
  /** As in `RunHooks`. */
  readonly hasDeadLetterPlace: boolean
}

/** Takes what a receive brought. Resolves when all of it is settled; rejects only if it was not accepted. */
export type HandleMessages<Message> = ((messages: readonly Message[]) => Promise<void>) & {
  readonly consumption: WrappedConsumption
}

/** A wrap that takes messages from the loop of its user, and settles each of them. */
export function wrapMessages<Message, Each extends Delivered>(
  options: WrapMessagesOptions<Message, Each>,
): HandleMessages<Message> {
  const { port, queue, describe, settings, settling, finish } = options
  return withConsumption({
    ...{ port, queue, describe, drainMs: settings.drainMs },
    createLoop: (signals) => {
      const dispatcher = new UnsettledMessages(options, signals)
      const wrapped = (messages: readonly Message[]) => dispatcher.take(messages)
      return { wrapped, dispatcher, settling, finish }
    },
  })
}

/** The messages that the user's loop handed over, until the broker has taken their settlement. */
class UnsettledMessages<Message, Each extends Delivered> {
  inFlight = 0
  readonly #options: WrapMessagesOptions<Message, Each>
  readonly #signals: WrapSignals
  readonly #calls = new Set<Promise<void>>()

  constructor(options: WrapMessagesOptions<Message, Each>, signals: WrapSignals) {
    this.#options = options
    this.#signals = signals
  }

  async take(messages: readonly Message[]): Promise<void> {
    const received = this.#options.accept(messages)
    this.inFlight += received.length
    // The broker has answered. Without it, the first messages of a quiet hour would look stalled.
    this.#signals.progressed()
    const call = this.#process(received).finally(() => this.#calls.delete(call))
    this.#calls.add(call)
    await call
  }

  /** Nothing waits here: the guard answers a stop for messages that it has not started. */
  clear(): void {}

  async ended(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls)
  }

  async #process(received: readonly Each[]): Promise<void> {
    const { port, settings, hasDeadLetterPlace } = this.#options
    const { stop, abort, progressed } = this.#signals
    const settle = async (each: Each, settlement: Settlement): Promise<void> => {
      await this.#options.settle(each, settlement)
      this.inFlight -= 1
      progressed()
    }
    for (const batch of toBatches(byOrderingKey(received), settings.batchSize)) {
      await processAndSettle(port, batch, { stop, abort, hasDeadLetterPlace, settle })
    }
  }
}
