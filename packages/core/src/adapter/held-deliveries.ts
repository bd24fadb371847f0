import type { Runtime } from '../model/runtime.ts'

/** While a delivery is held. */
export interface Hold {
  /** It waits for the store, however long that takes. */
  readonly isOutage: boolean
}

interface Held extends Hold {
  readonly sinceMs: number
  readonly cancel: () => void
}

export interface HeldDeliveriesOptions<Each> {
  readonly runtime: Runtime
  /** The delivery is no longer held, and may run again. */
  readonly onDue: (each: Each, hold: Hold) => void
}

/** A held delivery waits this long before it probes a store that is reported as available again. */
const REST_MS = 1_000

/** Deliveries that stay unsettled with the broker until their time, and then run again. */
export class HeldDeliveries<Each> {
  readonly #options: HeldDeliveriesOptions<Each>
  readonly #held = new Map<Each, Held>()

  constructor(options: HeldDeliveriesOptions<Each>) {
    this.#options = options
  }

  get size(): number {
    return this.#held.size
  }

  /** Those that do not wait for the store. */
  get deferred(): number {
    let count = 0
    for (const { isOutage } of this.#held.values()) if (!isOutage) count += 1
    return count
  }

  /** @param untilMs - On the monotonic clock. */
  hold(each: Each, untilMs: number, { isOutage }: Hold): void {
    this.#hold(each, untilMs, { isOutage, sinceMs: this.#options.runtime.monotonic() })
  }

  /** The store is back: deliveries that waited for it run again, each at most once a second. */
  resume(): void {
    const nowMs = this.#options.runtime.monotonic()
    for (const [each, { isOutage, sinceMs, cancel }] of [...this.#held]) {
      if (!isOutage) continue
      cancel()
      this.#hold(each, Math.max(nowMs, sinceMs + REST_MS), { isOutage, sinceMs })
    }
  }

  /** Takes back held deliveries: all of them, or those of which `isMeant` is true. */
  takeBack(isMeant: (each: Each) => boolean = () => true): readonly Each[] {
    const taken = [...this.#held.keys()].filter(isMeant)
    for (const each of taken) this.#release(each)
    return taken
  }

  #hold(each: Each, untilMs: number, held: Omit<Held, 'cancel'>): void {
    const { runtime, onDue } = this.#options
    const over = (): void => {
      this.#release(each)
      onDue(each, held)
    }
    const waitMs = Math.max(0, untilMs - runtime.monotonic())
    this.#held.set(each, { ...held, cancel: runtime.setTimer(over, waitMs, { keepAlive: false }) })
  }

  #release(each: Each): void {
    this.#held.get(each)?.cancel()
    this.#held.delete(each)
  }
}
