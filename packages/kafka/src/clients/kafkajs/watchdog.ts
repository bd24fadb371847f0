import { CallTimeoutError } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { ConsumerSettings } from '../../options.ts'

/** The default of kafkajs. */
const REBALANCE_MS = 60_000

export type Times = Pick<ConsumerSettings['consumer'], 'rebalanceTimeout' | 'sessionTimeout'>

/** A fetch or a heartbeat was answered. */
export interface Answered {
  /** Of the group, as the heartbeat said; a fetch says none. */
  readonly generation?: number | undefined
  /** A rebalance was noticed, and no join has ended it. */
  readonly isHeld?: boolean
}

/**
 * Detects that kafkajs hangs.
 *
 * - On a connection that died silently, kafkajs lets each request time out and then repeats it on the same connection.
 *   For minutes it neither reads nor reports a crash.
 * - If the answer to the last request of a join is lost, kafkajs fetches on with the partitions that it had, and sends
 *   heartbeats of the new generation, which the broker answers. It would not stop doing so.
 * - If the broker has forgotten the member, and the join that follows fails, kafkajs fetches on with the partitions that it
 *   had. It sends no heartbeats, because it has no member id, and so never learns that it must join again.
 */
export class Watchdog {
  readonly limitMs: number
  readonly #runtime: Runtime
  readonly #sessionMs: number
  #heardAtMs = 0
  #beatAtMs = 0
  /** Of the first heartbeat since the last join. */
  #generation: number | undefined
  /** Heartbeats are of another generation than the partitions. */
  #isOutdated = false
  /** A join must follow: until then no answer counts. */
  #missesJoin = false
  #cancel: (() => void) | undefined

  constructor(runtime: Runtime, { rebalanceTimeout = REBALANCE_MS, sessionTimeout }: Times) {
    this.#runtime = runtime
    this.#sessionMs = sessionTimeout
    // A join waits for every other member, so a healthy consumer may be silent for that long.
    this.limitMs = Math.max(rebalanceTimeout, sessionTimeout) + sessionTimeout
  }

  /** The time since the last sign of life. */
  get silentMs(): number {
    return this.#runtime.monotonic() - this.#heardAtMs
  }

  /** @param onSilence - Called once, when there was no answer for the whole limit. */
  begin(onSilence: (silence: Error) => void): void {
    this.end()
    this.joined()
    this.#look(this.limitMs, onSilence)
  }

  joined(): void {
    this.#generation = undefined
    this.#isOutdated = false
    this.#missesJoin = false
    this.#heardAtMs = this.#runtime.monotonic()
    this.#beatAtMs = this.#heardAtMs
  }

  heard({ generation, isHeld = false }: Answered = {}): void {
    const nowMs = this.#runtime.monotonic()
    this.#generation ??= generation
    this.#isOutdated ||= generation !== undefined && generation !== this.#generation
    if (generation !== undefined) this.#beatAtMs = nowMs
    // The broker forgets a member that is silent for a session.
    this.#missesJoin = isHeld || this.#isOutdated || nowMs - this.#beatAtMs >= this.#sessionMs
    if (!this.#missesJoin) this.#heardAtMs = nowMs
  }

  end(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #look(delayMs: number, onSilence: (silence: Error) => void): void {
    const look = (): void => {
      const leftMs = this.limitMs - this.silentMs
      if (leftMs > 0) this.#look(leftMs, onSilence)
      else onSilence(new CallTimeoutError(this.#silent, this.limitMs))
    }
    this.#cancel = this.#runtime.setTimer(look, delayMs, { keepAlive: false })
  }

  get #silent(): string {
    return this.#missesJoin ? 'A rejoin' : 'Fetches and heartbeats'
  }
}
