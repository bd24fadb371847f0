import type { EpochMs } from './brands.ts'
import type { ConsumerPausedError } from './errors.ts'

/** Why a consumer starts nothing (design.md §17). */
export interface Pause {
  /** `operator`: from outside. `handler`: `context.pauseFor`. `guard`: the guard itself, and nobody but an operator ends it. */
  readonly source: 'operator' | 'handler' | 'guard'
  readonly by?: string | undefined
  readonly why?: string | undefined
  /** Milliseconds until it ends by itself. Undefined: somebody has to resume the consumer. */
  readonly forMs?: number | undefined
}

/** Where the pauses of a consumer are kept for all its processes. */
export interface PauseStore {
  /** The pause in force, with the time that is left of it on the store's clock. One statement. */
  read(): Promise<Pause | undefined>
  /** Stores a pause of this process, unless one that lasts longer is in force. */
  write(pause: Pause): Promise<void>
  /** Ends the pause. */
  end(): Promise<void>
}

/** A consumer that starts nothing now. */
export interface PausedState {
  readonly pause: Pause
  /** When to look again. In the past: one event may ask whether the pause is over. */
  readonly retryAt: EpochMs
  readonly error: ConsumerPausedError
}

/** Whether the events of a guard may start. Each guard has one. */
export interface Valve {
  /** Cheap: every call asks. */
  readonly isOpen: boolean
  /** The guard is closed. */
  readonly isClosed: boolean
  /** Aborted while nothing may start. After each pause there is another one. */
  readonly signal: AbortSignal
  /** Undefined while the consumer is not paused. */
  state(): PausedState | undefined
  /**
   * Asks for one call. `probe`: the pause has ended by itself, and this call tells whether it is over; it must be ended
   * with {@link Valve.probed}.
   */
  enter(): 'open' | 'probe' | 'shut'
  /** @param isOver - The call has run its events. */
  probed(isOver: boolean): void
  /** What is paused now has this error. After a pause that has just ended, too. */
  error(): ConsumerPausedError
  /** Milliseconds after which a delivery that was not started may come back. */
  delayMs(): number
  /** Pauses the consumer in this process now, and in the others as soon as the store has it. */
  pause(pause: Pause): void
  /** Ends the pause, in this process now and in the others as soon as they look. */
  resume(): void
  /** Calls back whenever a pause begins. The returned function unsubscribes. */
  onShut(listener: () => void): () => void
  /** Looks into the store from now on. Rejects if the store does not answer. */
  attach(store: PauseStore): Promise<void>
  /** Looks into the store, unless the last look is younger than `maxAgeMs`. Never rejects. */
  look(maxAgeMs?: number): Promise<void>
  /** The guard is closed: its closing is what stops events from now on. */
  close(): void
}
