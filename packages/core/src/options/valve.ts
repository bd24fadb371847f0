import type { EpochMs } from '../model/brands.ts'
import type { ConsumerPausedError } from '../model/errors.ts'
import type { Pause } from '../model/guard-port.ts'
import type { PauseStore } from '../model/inbox.ts'
import type { DeadLetterReason } from '../model/settlement.ts'

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
  /** The error of events that a pause has stopped, also just after its end. */
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

/** Keeps a wrong resolver from emptying a queue into dead letters. */
export interface RefusalLimit {
  /**
   * How many of the messages may be refused for good. The others wait, because the consumer is paused.
   *
   * @param isProven - Whether the consumer ever had an event, or an operator has acted on it. Undefined: not known.
   */
  admit(
    reasons: readonly DeadLetterReason[],
    isProven: (() => Promise<boolean>) | undefined,
  ): Promise<number>
}
