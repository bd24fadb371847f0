import { type BackoffRange, pauseMs } from '../concurrency/backoff.ts'
import { STORE_LOOK_MS, StoreGate } from '../flow/store-gate.ts'
import type { OncewardError } from '../model/errors.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { type ClassifiedError, isFatal, isStoreDown } from './classified-error.ts'
import type { ConsumptionEnd } from './consumption.ts'
import type { Outage } from './health.ts'

export interface RecoveryOptions<Kind extends string> {
  readonly port: Pick<GuardPort, 'runtime' | 'logger' | 'availability' | 'onPaused'>
  /** Names the consumer in the log. */
  readonly fields: Readonly<Record<string, unknown>>
  readonly classifyError: (error: unknown) => ClassifiedError<Kind>
  /** Longest pauses between two tries; a store that is down is tried again as often as the network. */
  readonly backoff: Readonly<Record<Kind | 'network', BackoffRange>>
  /** Must succeed once before anything is received. */
  readonly check?: (() => Promise<void>) | undefined
  /** A pause is over, or the check has succeeded. */
  readonly onRetry: () => void
  /** The consumer was paused: what was not started goes back, and nothing more is received. */
  readonly onPaused?: (() => void) | undefined
  readonly onEnd: (end: ConsumptionEnd) => void
}

/** What keeps a receiver from receiving, and when it tries again. An outage is logged when it begins or changes. */
export class Recovery<Kind extends string> {
  /** When the broker last answered, or a message was last settled. */
  lastProgressAt: Date | undefined
  readonly store: StoreGate
  readonly #options: RecoveryOptions<Kind>
  #check: 'due' | 'running' | 'done' = 'due'
  #outage: Outage | undefined
  #failures = 0
  #isStopped = false
  #cancelPause: (() => void) | undefined
  readonly #forgetPauses: (() => void) | undefined

  constructor(options: RecoveryOptions<Kind>) {
    this.#options = options
    this.store = new StoreGate(options.port)
    const { onPaused, port } = options
    this.#forgetPauses =
      onPaused &&
      port.onPaused(() => {
        // Health says so at once, and not when something comes.
        this.look()
        onPaused()
      })
  }

  get outage(): Outage | undefined {
    return this.#outage
  }

  /** The receiver was stopped: nothing more is to be tried. */
  get isStopped(): boolean {
    return this.#isStopped
  }

  /** A pause is under way. */
  get isPausing(): boolean {
    return this.#cancelPause !== undefined
  }

  /**
   * Runs the check, and then retries until it succeeds.
   *
   * @throws {@link ConfigurationError} for options that can never work.
   */
  async start(): Promise<void> {
    const error = await this.#runCheck()
    if (error !== undefined) throw error
    this.#options.onRetry()
  }

  /** Whether something may be received now. Begins the check again if that is due. */
  mayReceive(): boolean {
    if (this.#isStopped || this.isPausing) return false
    if (this.#check === 'due') void this.#checkAgain()
    return this.#check === 'done'
  }

  /** Runs the check, unless it has succeeded. Rejects with its error. */
  async checkOnce(): Promise<void> {
    if (this.#check === 'done') return
    this.#check = 'running'
    try {
      await this.#options.check?.()
      this.#check = 'done'
    } finally {
      if (this.#check !== 'done') this.#check = 'due'
    }
  }

  /** A settlement is stored: the store has answered. */
  known(settlement: Settlement): void {
    this.store.answered()
    if (isGuardClosed(settlement) && !this.#isStopped) this.#options.onEnd({ kind: 'closed' })
  }

  progressed(): void {
    this.lastProgressAt = new Date(this.#options.port.runtime.now())
  }

  /** Ends the consumer, if there is an error that ends it. */
  endOn(error: unknown): void {
    if (error !== undefined) this.#options.onEnd({ kind: 'fatal', error })
  }

  /** What the store allows. Its outage begins and ends here, and a shut gate is looked at again after a pause. */
  look(): 'open' | 'probe' | 'shut' {
    const gate = this.store.look()
    if (gate.kind === 'open') {
      if (this.#outage?.state === 'paused') this.end()
      return 'open'
    }
    const { text } = this.#options.classifyError(gate.error)
    this.begin({ state: 'paused', reason: text })
    if (gate.kind === 'shut' && gate.waitMs > 0) this.pause(Math.min(gate.waitMs, STORE_LOOK_MS))
    return gate.kind
  }

  begin(outage: Outage): void {
    const { state, reason } = outage
    const isNew = this.#outage?.state !== state || this.#outage.reason !== reason
    this.#outage = outage
    const { port, fields } = this.#options
    // The consumer was to receive nothing, so an error of a restart that was under way is not logged.
    if (!isNew || this.#isStopped) return
    port.logger.warn(
      { ...fields, ...outage },
      'the consumer receives nothing now and tries again by itself',
    )
  }

  /** Answers the outage that is over; undefined when there was none. */
  end(): Outage | undefined {
    const before = this.#outage
    this.#outage = undefined
    const { port, fields } = this.#options
    if (before !== undefined) port.logger.info(fields, 'the consumer receives again')
    return before
  }

  /** Begins or continues the outage that this error means, and pauses longer after each failure. */
  failed(error: unknown): void {
    const { port, classifyError, backoff } = this.#options
    const { kind, text } = classifyError(error)
    const isStore = isStoreDown(error)
    this.begin({ state: isStore ? 'paused' : 'recovering', reason: text })
    const range = backoff[isStore ? 'network' : kind]
    this.pause(pauseMs(range, this.#failures, () => port.runtime.random()))
    this.#failures += 1
  }

  /** The next pause is a short one again. */
  succeeded(): void {
    this.#failures = 0
  }

  /** Retries after this time. A pause that is under way stays as it is. */
  pause(delayMs: number): void {
    if (this.#isStopped || this.isPausing) return
    const over = (): void => {
      this.#cancelPause = undefined
      this.#options.onRetry()
    }
    this.#cancelPause = this.#options.port.runtime.setTimer(over, delayMs)
  }

  /** Ends a pause that is under way, without a retry. */
  stop(): void {
    this.#isStopped = true
    this.#forgetPauses?.()
    this.#cancelPause?.()
    this.#cancelPause = undefined
  }

  /** Returns the error that ends the consumer, if there is one. */
  async #runCheck(): Promise<OncewardError | undefined> {
    try {
      await this.checkOnce()
      this.succeeded()
      this.end()
    } catch (error) {
      if (isFatal(error)) return error
      this.failed(error)
    }
    return undefined
  }

  async #checkAgain(): Promise<void> {
    const error = await this.#runCheck()
    this.endOn(error)
    if (error === undefined) this.#options.onRetry()
  }
}

/** A guard that was closed answers this for everything it is handed; from a running consumer, that ends it. */
export const isGuardClosed = (settlement: Settlement): boolean =>
  settlement.kind === 'abandon' && settlement.reason === 'closing'
