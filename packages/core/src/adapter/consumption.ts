import { ABORT_GRACE_MS } from '../concurrency/stop-signals.ts'
import { endsWithin } from '../concurrency/timeout.ts'
import type { GuardPort } from '../model/guard-port.ts'

/** How a consumption is doing. */
export interface Health {
  /** `paused`: the store is down. `recovering`: the broker is, or refuses us. */
  readonly state: 'running' | 'paused' | 'recovering' | 'draining' | 'stopped'
  /** Messages taken from the broker and not settled. */
  readonly inFlight: number
  /** The last time that the broker answered a receive or a message was settled. */
  readonly lastProgressAt?: Date | undefined
  readonly reason?: string | undefined
  /** Settlements that the broker refused since the start; their messages return and the store answers them. */
  readonly settleFailures: number
}

/** A running consumer. */
export interface Consumption extends AsyncDisposable {
  /** Resolves after a drain; rejects when the consumer can never go on. */
  readonly stopped: Promise<void>
  /**
   * No new claims; running handlers end (at most `drainMs`, then their signals abort), finished messages are
   * settled, those that were not begun go back to the broker at once. Resolves when that is done; never rejects.
   */
  drain(): Promise<void>
  health(): Health
}

/** Why nothing is received at the moment. */
export interface Outage {
  readonly state: 'paused' | 'recovering'
  readonly reason: string
}

/** Why a consumer ends by itself. */
export type ConsumptionEnd =
  | { readonly kind: 'closed' }
  | { readonly kind: 'fatal'; readonly error: unknown }

/** What an adapter does between the start and the end of a consumption. */
export interface ConsumerLoop {
  /** What brings messages. */
  readonly feed: Pick<Health, 'lastProgressAt'> & { readonly setback: Outage | undefined }
  readonly intake: Pick<Health, 'inFlight'>
  /** What tells the broker. */
  readonly settling: Pick<Health, 'settleFailures'>
  /**
   * Resolves when the store and the broker have been checked and the first receive is under way, or is being
   * tried again because one of them cannot be reached.
   *
   * @throws {@link ConfigurationError} for what can never work; the loop has let go of everything then.
   */
  start(): Promise<void>
  /** Takes nothing more in and gives back what was not begun; resolves when nothing is in hand. Never rejects. */
  stop(): Promise<void>
  /** Lets go of everything, also of what is still in hand. Bounded, and never rejects. */
  finish(): Promise<void>
}

/** What a consumption tells its loop. */
export interface LoopSignals {
  /** Aborted: start nothing more. */
  readonly stop: AbortSignal
  /** Aborted: handlers had their time. */
  readonly abort: AbortSignal
  readonly onEnd: (end: ConsumptionEnd) => void
}

export interface ConsumptionOptions {
  readonly port: GuardPort
  readonly drainMs: number
  /** The user's own: aborted means drain. */
  readonly signal: AbortSignal | undefined
  /** For logs. */
  readonly queue: string
  /** What an error means, without payloads. */
  readonly describe: (error: unknown) => string
  readonly createLoop: (signals: LoopSignals) => ConsumerLoop
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
class Running implements Consumption {
  readonly stopped: Promise<void>
  readonly #options: ConsumptionOptions
  readonly #loop: ConsumerLoop
  readonly #end = Promise.withResolvers<void>()
  readonly #stop = new AbortController()
  readonly #abort = new AbortController()
  #phase: 'running' | 'draining' | 'stopped' = 'running'
  #drained: Promise<void> | undefined
  #fatal: { readonly error: unknown } | undefined

  constructor(options: ConsumptionOptions) {
    this.#options = options
    this.stopped = this.#end.promise
    this.#loop = options.createLoop({
      stop: this.#stop.signal,
      abort: this.#abort.signal,
      onEnd: (end) => this.#ends(end),
    })
  }

  async start(): Promise<void> {
    const { signal } = this.#options
    if (signal?.aborted) return this.drain()
    const onAbort = (): void => void this.drain()
    signal?.addEventListener('abort', onAbort, { once: true })
    const forget = (): void => signal?.removeEventListener('abort', onAbort)
    this.stopped.then(forget, forget)
    try {
      await this.#loop.start()
    } catch (error) {
      forget()
      throw error
    }
  }

  health(): Health {
    const { feed, intake, settling } = this.#loop
    const { setback, lastProgressAt } = feed
    const state = this.#phase === 'running' ? (setback?.state ?? 'running') : this.#phase
    const reason =
      this.#fatal === undefined ? setback?.reason : this.#options.describe(this.#fatal.error)
    return {
      state,
      inFlight: intake.inFlight,
      settleFailures: settling.settleFailures,
      ...(lastProgressAt === undefined ? {} : { lastProgressAt }),
      ...(reason === undefined ? {} : { reason }),
    }
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
    const ended = this.#loop.stop()
    if (!(await endsWithin(port.runtime, ended, drainMs))) {
      this.#abort.abort()
      await endsWithin(port.runtime, ended, ABORT_GRACE_MS)
    }
    await this.#loop.finish()
    this.#phase = 'stopped'
    if (this.#fatal === undefined) this.#end.resolve()
    else this.#end.reject(this.#fatal.error)
  }

  #ends(end: ConsumptionEnd): void {
    const { port, queue } = this.#options
    if (this.#phase !== 'running') return
    const fields = { queue, consumer: port.settings.consumer }
    if (end.kind === 'closed') {
      port.logger.warn(fields, 'the guard was closed while its consumer ran; draining')
    } else {
      this.#fatal = { error: end.error }
      port.logger.error({ ...fields, err: end.error }, 'the consumer can never go on')
    }
    void this.drain()
  }
}
