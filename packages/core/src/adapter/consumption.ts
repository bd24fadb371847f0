import { ABORT_GRACE_MS, onceAborted } from '../concurrency/stop-signals.ts'
import { endsWithin } from '../concurrency/timeout.ts'
import type { GuardPort } from '../model/guard-port.ts'
import { LINES, type Logger, notice } from '../model/logger.ts'
import type { DependencyOutage, Health, Outage, WrapOutage } from './health.ts'

/** A running consumer. */
export interface Consumption extends AsyncDisposable {
  /** Resolves after a drain; rejects when the consumer cannot continue. */
  readonly stopped: Promise<void>
  /**
   * Starts nothing more and gives back at once what was not started. Running handlers get `drainMs` to end, then
   * their signals abort. Finished messages are settled. Resolves after that; never rejects.
   */
  drain(): Promise<void>
  health(): Health
}

/** What a consumption tells about its drain. Of all copies of this package in the process. */
export const DRAINING: unique symbol = Symbol.for('onceward.draining')

export interface DrainFacts {
  readonly consumer: string
  readonly drainMs: number
  readonly logger: Logger
}

/** Why a consumer ends without being asked. */
export type ConsumptionEnd =
  | { readonly kind: 'closed' }
  | { readonly kind: 'fatal'; readonly error: unknown }

/** Brings messages. */
export interface Receiving extends Pick<Health, 'lastProgressAt'> {
  readonly outage: Outage | WrapOutage | undefined
  /** What is not received although the rest is. */
  readonly notice?: string | undefined
  /**
   * Resolves when the store and the broker have been checked and the first receive is under way, or is being
   * tried again because one of them cannot be reached.
   *
   * @throws {@link ConfigurationError} for options that can never work.
   */
  start(): Promise<void>
  /** Receives nothing more. Bounded, and never rejects. */
  stop(): Promise<void> | void
}

/** Holds the received messages and decides which of them run now. */
export interface Dispatching extends Pick<Health, 'inFlight'> {
  /** Gives back everything that the guard has not been handed. */
  clear(): void
  /** Resolves when everything is settled. Never rejects. */
  ended(): Promise<void>
}

/** Carries out settlements. */
export interface Settling extends Pick<Health, 'settleFailures'> {
  /** Processed messages whose settlement the broker does not have. */
  readonly notice?: string | undefined
}

/** What an adapter brings to a consumption; {@link startConsumption} starts, drains and ends it. */
export interface ConsumerLoop {
  readonly receiver: Receiving
  readonly dispatcher: Dispatching
  readonly settling: Settling
  /** Releases everything, also what is not settled yet. Bounded, and never rejects. */
  readonly finish: () => Promise<void>
}

/** What a consumption passes to its receiver and dispatcher. */
export interface LoopSignals {
  /** Aborted: start nothing more. */
  readonly stop: AbortSignal
  /** Aborted: running handlers had their time. */
  readonly abort: AbortSignal
  readonly onEnd: (end: ConsumptionEnd) => void
}

export interface ConsumptionOptions<Loop extends ConsumerLoop = ConsumerLoop> {
  readonly port: GuardPort
  readonly drainMs: number
  /** The user's signal: aborted means drain. */
  readonly signal: AbortSignal | undefined
  /** Names the consumer in the log. */
  readonly queue: string
  /** The text for `health().reason`; it contains no payload. */
  readonly describe: (error: unknown) => string
  readonly createLoop: (signals: LoopSignals) => Loop
}

/**
 * Starts a consumption; its phases are the same on every broker.
 *
 * @throws {@link ConfigurationError} from the loop's start.
 */
export async function startConsumption(options: ConsumptionOptions): Promise<Consumption> {
  const running = new Running(options)
  await running.start()
  return running
}

/** The life of a consumption: start, drain, end. */
export class Running<Loop extends ConsumerLoop> implements Consumption {
  readonly stopped: Promise<void>
  readonly loop: Loop
  readonly #options: ConsumptionOptions<Loop>
  readonly #end = Promise.withResolvers<void>()
  readonly #stop = new AbortController()
  readonly #abort = new AbortController()
  #phase: 'running' | 'draining' | 'stopped' = 'running'
  #drained: Promise<void> | undefined
  #fatal: { readonly error: unknown } | undefined

  constructor(options: ConsumptionOptions<Loop>) {
    this.#options = options
    this.stopped = this.#end.promise
    const { drainMs, port } = options
    const facts: DrainFacts = { consumer: port.settings.consumer, drainMs, logger: port.logger }
    Object.defineProperty(this, DRAINING, { value: facts })
    this.loop = options.createLoop({
      stop: this.#stop.signal,
      abort: this.#abort.signal,
      onEnd: (end) => this.#ends(end),
    })
  }

  async start(): Promise<void> {
    const { signal, port } = this.#options
    const forgetSignal = onceAborted(signal, () => void this.drain())
    // Not only when a message is answered so: on an idle queue none may come, and the consumer would never end.
    const forgetClosing = onceAborted(port.closing, () => this.#ends({ kind: 'closed' }))
    const forget = (): void => {
      forgetClosing()
      forgetSignal()
    }
    this.stopped.then(forget, forget)
    if (this.#phase !== 'running') return this.drain()
    try {
      // A drain during the start ends it: a broker or a store that does not answer must not hold up the shutdown.
      await Promise.race([this.loop.receiver.start(), this.stopped])
      this.#tellStart()
    } catch (error) {
      forget()
      await this.loop.finish()
      throw error
    }
  }

  #tellStart(): void {
    const { port, queue } = this.#options
    const { concurrency, consumer } = port.settings
    // Otherwise the log says what it waits for, and then that it receives again.
    if (this.#phase === 'running' && this.loop.receiver.outage === undefined)
      notice(port.logger, { consumer, queue, concurrency }, LINES.started)
  }

  health(): Health {
    const { receiver, dispatcher, settling } = this.loop
    const { outage, lastProgressAt } = receiver
    const state = this.#phase === 'running' ? (outage?.state ?? 'running') : this.#phase
    const reason =
      this.#fatal === undefined
        ? (outage?.reason ?? this.#notice)
        : this.#options.describe(this.#fatal.error)
    const outages = this.#outages()
    return {
      state,
      inFlight: dispatcher.inFlight,
      settleFailures: settling.settleFailures,
      ...(outages.length === 0 ? {} : { outages }),
      ...(lastProgressAt === undefined ? {} : { lastProgressAt }),
      ...(reason === undefined ? {} : { reason }),
    }
  }

  get #notice(): string | undefined {
    const { receiver, settling } = this.loop
    const notices = [receiver.notice, settling.notice].filter((notice) => notice !== undefined)
    return notices.length === 0 ? undefined : notices.join('; ')
  }

  #outages(): readonly DependencyOutage[] {
    const { port, describe } = this.#options
    const { outage } = this.loop.receiver
    const own = port
      .outages()
      .map(({ dependency, error }) => ({ dependency, reason: describe(error) }))
    if (outage?.state !== 'recovering') return own
    return [{ dependency: 'broker', reason: outage.reason }, ...own]
  }

  drain(): Promise<void> {
    this.#drained ??= this.#drain()
    return this.#drained
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain()
  }

  async #drain(): Promise<void> {
    const { drainMs, port } = this.#options
    this.#phase = 'draining'
    this.#stop.abort()
    const ended = this.#endLoop()
    if (!(await endsWithin(port.runtime, ended, drainMs))) {
      this.#abort.abort()
      await endsWithin(port.runtime, ended, ABORT_GRACE_MS)
    }
    await this.loop.finish()
    await port.flush?.()
    this.#phase = 'stopped'
    if (this.#fatal === undefined) this.#end.resolve()
    else this.#end.reject(this.#fatal.error)
  }

  /** Resolves when nothing is received any more and everything is settled. */
  async #endLoop(): Promise<void> {
    const { receiver, dispatcher } = this.loop
    await receiver.stop()
    dispatcher.clear()
    await dispatcher.ended()
  }

  #ends(end: ConsumptionEnd): void {
    const { port, queue } = this.#options
    if (this.#phase !== 'running') return
    const fields = { queue, consumer: port.settings.consumer }
    if (end.kind === 'closed') {
      port.logger.warn(
        fields,
        'the guard was closed while its consumer was running; the consumer drains',
      )
    } else {
      this.#fatal = { error: end.error }
      port.logger.error(
        { ...fields, err: end.error },
        'the consumer stops: it cannot recover from this error',
      )
    }
    void this.drain()
  }
}
