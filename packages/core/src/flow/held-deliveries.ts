import type { Runtime } from '../model/runtime.ts'
import { byOrderingKey, type Delivered } from './ordering.ts'

/** Why deliveries were held that are due now. */
export interface Hold {
  /** They waited for the store, however long that took. */
  readonly isOutage: boolean
  /** The store is back, or is to be asked; otherwise their own time has come. */
  readonly isResumed: boolean
}

/** One timer for the deliveries that come back together. */
interface Wait<Each> {
  readonly members: Set<Each>
  readonly cancel: () => void
}

interface Held<Each> {
  readonly isOutage: boolean
  readonly sinceMs: number
  readonly wait: Wait<Each>
}

export interface HeldDeliveriesOptions<Each> {
  readonly runtime: Runtime
  /** The deliveries are no longer held, and may run again. */
  readonly onDue: (group: readonly Each[], hold: Hold) => void
}

/** A held delivery waits this long before it probes a store that is reported as available again. */
const REST_MS = 1_000

/** Deliveries that stay unsettled with the broker until their time, and then run again. */
export class HeldDeliveries<Each extends Delivered> {
  readonly #options: HeldDeliveriesOptions<Each>
  /** Those that wait longest come first. */
  readonly #held = new Map<Each, Held<Each>>()
  /** Those that wait for the store. */
  waiting = 0
  /** Some of them have not been resumed. */
  #isResumable = false

  constructor(options: HeldDeliveriesOptions<Each>) {
    this.#options = options
  }

  get size(): number {
    return this.#held.size
  }

  /** @param untilMs - On the monotonic clock. */
  hold(each: Each, untilMs: number, isOutage: boolean): void {
    const sinceMs = this.#options.runtime.monotonic()
    const wait = this.#wait([each], untilMs, { isOutage, isResumed: false })
    this.#held.set(each, { isOutage, sinceMs, wait })
    if (!isOutage) return
    this.waiting += 1
    this.#isResumable = true
  }

  /**
   * The store is back: deliveries that waited for it run again, each at most once a second. Those of an ordering key come
   * together, because in another call of the guard a later one could overtake an earlier one.
   */
  resume(): void {
    if (!this.#isResumable) return
    this.#isResumable = false
    for (const group of byOrderingKey(this.#outages())) {
      const held = group.map((each) => this.#release(each))
      const latestMs = Math.max(...held.map(({ sinceMs }) => sinceMs))
      const wait = this.#wait(group, latestMs + REST_MS, { isOutage: true, isResumed: true })
      this.waiting += group.length
      for (const [index, each] of group.entries()) {
        this.#held.set(each, { ...(held[index] as Held<Each>), wait })
      }
    }
  }

  /** Takes back the deliveries of the ordering key that has waited longest for the store, without a pause. */
  takeLongest(): readonly Each[] {
    const group = byOrderingKey(this.#outages())[0] ?? []
    for (const each of group) this.#release(each)
    return group
  }

  /** Takes back held deliveries: all of them, or those of which `isMeant` is true. */
  takeBack(isMeant: (each: Each) => boolean = () => true): readonly Each[] {
    const taken = [...this.#held.keys()].filter(isMeant)
    for (const each of taken) this.#release(each)
    return taken
  }

  #outages(): readonly Each[] {
    return [...this.#held].filter(([, { isOutage }]) => isOutage).map(([each]) => each)
  }

  #wait(group: readonly Each[], untilMs: number, hold: Hold): Wait<Each> {
    const { runtime, onDue } = this.#options
    const members = new Set(group)
    const over = (): void => {
      const due = [...members]
      for (const each of due) this.#release(each)
      onDue(due, hold)
    }
    const waitMs = Math.max(0, untilMs - runtime.monotonic())
    return { members, cancel: runtime.setTimer(over, waitMs, { keepAlive: false }) }
  }

  #release(each: Each): Held<Each> {
    const held = this.#held.get(each) as Held<Each>
    this.#held.delete(each)
    if (held.isOutage) this.waiting -= 1
    held.wait.members.delete(each)
    if (held.wait.members.size === 0) held.wait.cancel()
    return held
  }
}
