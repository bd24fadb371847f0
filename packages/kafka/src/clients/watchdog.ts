import type { Runtime } from '@onceward/core'
import type { ConsumerSettings } from '../options.ts'

/** The default of kafkajs. */
const REBALANCE_MS = 60_000

/** A join waits for every other member, so a healthy consumer may be silent for that long. */
export const silenceOf = ({ rebalanceTimeout = REBALANCE_MS, sessionTimeout }: Times): number =>
  Math.max(rebalanceTimeout, sessionTimeout) + sessionTimeout

type Times = Pick<ConsumerSettings['consumer'], 'rebalanceTimeout' | 'sessionTimeout'>

/**
 * Detects that kafkajs hangs. On a connection that died silently, kafkajs lets each request time out and then repeats
 * it on the same connection. For minutes it neither reads nor reports a crash.
 */
export class Watchdog {
  readonly limitMs: number
  readonly #runtime: Runtime
  #heardAtMs = 0
  #cancel: (() => void) | undefined

  constructor(runtime: Runtime, limitMs: number) {
    this.#runtime = runtime
    this.limitMs = limitMs
  }

  /** The time since the last sign of life. */
  get silentMs(): number {
    return this.#runtime.monotonic() - this.#heardAtMs
  }

  /** @param onSilence - Called once, when nothing was heard for the whole limit. */
  begin(onSilence: () => void): void {
    this.end()
    this.heard()
    this.#look(this.limitMs, onSilence)
  }

  /** A fetch or a heartbeat was answered, or the group was joined. */
  heard(): void {
    this.#heardAtMs = this.#runtime.monotonic()
  }

  end(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #look(delayMs: number, onSilence: () => void): void {
    const look = (): void => {
      const leftMs = this.limitMs - this.silentMs
      if (leftMs > 0) this.#look(leftMs, onSilence)
      else onSilence()
    }
    this.#cancel = this.#runtime.setTimer(look, delayMs, { keepAlive: false })
  }
}
