import type { GuardPort } from '../model/guard-port.ts'
import type { GuardCall, Pending, StartLimits } from './delivery-buffer.ts'

/** Which of the pending deliveries may start in one call of the guard. */
export interface Startable<Each> {
  /** Deliveries of one group run in order and share a slot. */
  readonly groups: readonly (readonly Each[])[]
  /** Deliveries from the head of the queue that were considered. */
  readonly considered: number
  /** Considered deliveries that cannot start yet; they keep their place at the head. */
  readonly blocked: readonly Each[]
}

export interface PendingDeliveriesOptions<Each> {
  readonly port: Pick<GuardPort, 'runtime'>
  readonly settings: { readonly lingerMs: number }
  readonly findStartable: (pending: readonly Each[], limits: StartLimits) => Startable<Each>
  /** Whether the broker may bring more before one of the received deliveries is settled. Asked while a batch waits. */
  readonly hasRoom: () => boolean
  /** A batch that is not full may start now. */
  readonly onLingerOver: () => void
}

/**
 * Deliveries in the order in which they came, for a broker that settles each by itself.
 *
 * In a guard of batches, they wait until their batch is full or the first of the batch has waited for `lingerMs`. A
 * batch is also full if the free slots take no more, or if the broker brings no more.
 */
export class PendingDeliveries<Each> implements Pending<Each> {
  readonly #options: PendingDeliveriesOptions<Each>
  #pending: Each[] = []
  #isLingerOver = false
  #cancelLinger: (() => void) | undefined

  constructor(options: PendingDeliveriesOptions<Each>) {
    this.#options = options
  }

  get size(): number {
    return this.#pending.length
  }

  add(deliveries: readonly Each[]): void {
    const { port, settings } = this.#options
    this.#pending.push(...deliveries)
    if (settings.lingerMs === 0) this.#isLingerOver = true
    else this.#cancelLinger ??= port.runtime.setTimer(() => this.#endLinger(), settings.lingerMs)
  }

  take(limits: StartLimits): GuardCall<Each> | undefined {
    const groups = this.#takeStartable(limits)
    this.#forgetLinger()
    return groups.length === 0 ? undefined : { groups }
  }

  /** Takes back pending deliveries: all of them, or those of which `isMeant` is true. */
  takeBack(isMeant: (each: Each) => boolean = () => true): readonly Each[] {
    const taken = this.#pending.filter(isMeant)
    this.#pending = this.#pending.filter((each) => !isMeant(each))
    this.#forgetLinger()
    return taken
  }

  /** Nothing while waiting for a fuller batch is allowed. */
  #takeStartable(limits: StartLimits): readonly (readonly Each[])[] {
    if (this.#pending.length === 0) return []
    const { findStartable, hasRoom } = this.#options
    const { groups, considered, blocked } = findStartable(this.#pending, limits)
    const isFull =
      considered - blocked.length >= limits.deliveries ||
      considered < this.#pending.length ||
      groups.length >= limits.groups
    if (!(isFull || this.#isLingerOver || !hasRoom())) return []
    this.#pending.splice(0, considered, ...blocked)
    return groups
  }

  #endLinger(): void {
    this.#cancelLinger = undefined
    this.#isLingerOver = true
    this.#options.onLingerOver()
  }

  /** The next delivery is the first of its batch. */
  #forgetLinger(): void {
    if (this.#pending.length > 0) return
    this.#isLingerOver = false
    this.#cancelLinger?.()
    this.#cancelLinger = undefined
  }
}
