import { type BackoffRange, pauseMs } from '../concurrency/backoff.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { type ClassifiedError, isStoreDown } from './classified-error.ts'

/** Why nothing is received at the moment. */
export interface Outage {
  /** `paused`: the store is down. `recovering`: the broker is down, or refuses the consumer. */
  readonly state: 'paused' | 'recovering'
  readonly reason: string
}

export interface RecoveryOptions<Kind extends string> {
  readonly port: Pick<GuardPort, 'runtime' | 'logger'>
  /** Names the consumer in the log. */
  readonly fields: Readonly<Record<string, unknown>>
  readonly classifyError: (error: unknown) => ClassifiedError<Kind>
  /** Longest pauses between two tries; a store that is down is tried again as often as the network. */
  readonly backoff: Readonly<Record<Kind | 'network', BackoffRange>>
  /** A pause is over. */
  readonly onRetry: () => void
}

/** While the store is down its availability, which is a local answer, is looked at this often. */
export const STORE_LOOK_MS = 1_000

/** What keeps a receiver from receiving, and when it tries again. An outage is logged when it begins or changes. */
export class Recovery<Kind extends string> {
  readonly #options: RecoveryOptions<Kind>
  #outage: Outage | undefined
  #failures = 0
  #isStopped = false
  #cancelPause: (() => void) | undefined

  constructor(options: RecoveryOptions<Kind>) {
    this.#options = options
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

  begin(outage: Outage): void {
    const { state, reason } = outage
    const isNew = this.#outage?.state !== state || this.#outage.reason !== reason
    this.#outage = outage
    const { port, fields } = this.#options
    // The consumer was to receive nothing, so an error of a restart that was under way is not logged.
    if (!isNew || this.#isStopped) return
    port.logger.warn({ ...fields, ...outage }, 'the consumer receives nothing now')
  }

  /** Begins the outage of a store that is down. */
  storeIsDown(error: unknown): void {
    this.begin({ state: 'paused', reason: this.#options.classifyError(error).text })
  }

  /** Answers the outage that is over; undefined when there was none. */
  end(): Outage | undefined {
    const before = this.#outage
    this.#outage = undefined
    const { port, fields } = this.#options
    if (before !== undefined) port.logger.info(fields, 'the consumer receives again')
    return before
  }

  /** Begins or goes on with the outage that this error means, and pauses longer after each failure. */
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
    this.#cancelPause?.()
    this.#cancelPause = undefined
  }
}

/** A guard that was closed answers this for everything it is handed; from a running consumer, that ends it. */
export const isGuardClosed = (settlement: Settlement): boolean =>
  settlement.kind === 'abandon' && settlement.reason === 'closing'
