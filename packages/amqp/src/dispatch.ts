import type { Settlement } from '@onceward/core'
import { type GuardPort, SharedSlots } from '@onceward/core/adapter'
import type { Line } from './clients/amqplib.ts'
import type { Handover } from './handover.ts'
import type { Settings } from './options.ts'
import type { HeldUntil, Received } from './settle.ts'

interface Hold {
  readonly sinceMs: number
  /** For the store to come back, whenever that is. */
  readonly isOutage: boolean
  readonly cancel: () => void
}

/** Before a held message asks a store again that is said to be back. */
const REST_MS = 1_000

export interface IntakeOptions {
  readonly port: GuardPort
  readonly handover: Handover
  readonly settings: Settings
  readonly stop: AbortSignal
  readonly abort: AbortSignal
  readonly onKnown: (settlement: Settlement) => void
  readonly onSettled: (line: Line) => void
}

/** The messages in hand, from the delivery to the last word to the broker. The prefetch bounds how many. */
export class Intake {
  readonly #options: IntakeOptions
  readonly #isBatch: boolean
  readonly #tasks = new Set<Promise<unknown>>()
  #pending: Received[] = []
  /** Waiting for their time. */
  readonly #held = new Map<Received, Hold>()
  /** Order keys that run now: a follower in another call of the guard could overtake its head. */
  readonly #orders = new Map<string, number>()
  #running = 0
  /** Transactions that the guard may be in. */
  #busySlots = 0
  #isDispatching = false
  #lingered = false
  #cancelLinger: (() => void) | undefined

  constructor(options: IntakeOptions) {
    this.#options = options
    this.#isBatch = options.port.settings.transaction === 'batch'
  }

  get inFlight(): number {
    return this.#pending.length + this.#running + this.#held.size
  }

  /** Half of the prefetch stays free for those that can run; during an outage none can. */
  mayHold(why: 'short' | 'outage'): boolean {
    const { stop, settings } = this.#options
    if (stop.aborted) return false
    return why === 'outage' || this.#held.size + 1 <= settings.prefetch / 2
  }

  take(received: Received): void {
    const { port, settings } = this.#options
    this.#pending.push(received)
    if (settings.lingerMs === 0) this.#lingered = true
    else this.#cancelLinger ??= port.runtime.setTimer(() => this.#endLinger(), settings.lingerMs)
    this.#dispatchSoon()
  }

  /** The store is back: what waited for it is handed over again, at most once a second. */
  resume(): void {
    const nowMs = this.#options.port.runtime.monotonic()
    for (const [received, { isOutage, sinceMs, cancel }] of [...this.#held]) {
      if (!isOutage) continue
      cancel()
      this.#hold(received, { untilMs: Math.max(nowMs, sinceMs + REST_MS), sinceMs, isOutage })
    }
  }

  /** Its channel is gone: what was not begun is the broker's again. */
  drop(line: Line): void {
    this.#pending = this.#pending.filter((received) => received.line !== line)
    for (const received of [...this.#held.keys()].filter((each) => each.line === line)) {
      this.#release(received)
    }
  }

  /** Gives back everything that the guard has not been handed. */
  clear(): void {
    this.#endLinger()
    const unstarted = [...this.#pending, ...this.#held.keys()]
    for (const received of this.#held.keys()) this.#release(received)
    this.#pending = []
    this.#track(this.#options.handover.giveBack(unstarted))
  }

  /** Resolves when nothing is in hand. */
  async ended(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.allSettled(this.#tasks)
  }

  #endLinger(): void {
    this.#cancelLinger?.()
    this.#cancelLinger = undefined
    this.#lingered = true
    this.#dispatchSoon()
  }

  /** All that one turn of the event loop brings or frees goes into one call of the guard. */
  #dispatchSoon(): void {
    if (this.#isDispatching) return
    this.#isDispatching = true
    setImmediate(() => {
      this.#isDispatching = false
      this.#dispatch()
    })
  }

  #dispatch(): void {
    const { stop, port } = this.#options
    while (!stop.aborted && this.#pending.length > 0) {
      const free = port.settings.concurrency - this.#busySlots
      const batch = free > 0 ? this.#next(this.#isBatch ? Number.POSITIVE_INFINITY : free) : []
      if (batch.length === 0) return
      this.#run(batch)
    }
    this.#lingered = false
    this.#cancelLinger?.()
    this.#cancelLinger = undefined
  }

  /** None while a fuller batch is worth the wait. */
  #next(slots: number): readonly (readonly Received[])[] {
    const { batchSize } = this.#options.settings
    const groups = new Map<unknown, Received[]>()
    const waiting: Received[] = []
    let size = 0
    for (const received of this.#pending) {
      const order = this.#orderOf(received)
      const group = groups.get(order ?? received)
      if (size >= batchSize || (group === undefined && groups.size >= slots)) break
      if (order !== undefined && this.#orders.has(order)) {
        waiting.push(received)
        continue
      }
      size += 1
      if (group === undefined) groups.set(order ?? received, [received])
      else group.push(received)
    }
    const looked = size + waiting.length
    const isWorthwhile = size >= batchSize || looked < this.#pending.length || this.#lingered
    if (size === 0 || !isWorthwhile) return []
    this.#pending.splice(0, looked, ...waiting)
    return [...groups.values()]
  }

  #run(groups: readonly (readonly Received[])[]): void {
    const { handover, stop, abort, onKnown } = this.#options
    const batch = groups.flat()
    const slots = new SharedSlots(this.#isBatch ? [batch] : groups)
    this.#busySlots += slots.busy
    this.#running += batch.length
    for (const received of batch) this.#order(received, 1)
    const run = handover.run(batch, {
      stop,
      abort,
      onKnown: (received, settlement) => {
        this.#order(received, -1)
        if (slots.known(received)) this.#busySlots -= 1
        onKnown(settlement)
        this.#dispatchSoon()
      },
      onSettled: (received, settlement, held) => this.#settled(received, settlement, held),
    })
    this.#track(run)
  }

  /** The guard alone knows its own lanes: then all that it is handed at once is all that it may run at once. */
  #orderOf({ delivery }: Received): string | undefined {
    return this.#options.port.settings.lanesAreUsers ? '' : delivery.orderingKey
  }

  #order(received: Received, more: 1 | -1): void {
    const order = this.#orderOf(received)
    if (order === undefined) return
    const count = (this.#orders.get(order) ?? 0) + more
    if (count === 0) this.#orders.delete(order)
    else this.#orders.set(order, count)
  }

  #settled(received: Received, settlement: Settlement, untilMs: HeldUntil): void {
    const { onSettled, stop, port, handover } = this.#options
    this.#running -= 1
    if (untilMs !== undefined && received.line.isOpen) {
      const isOutage = settlement.kind === 'defer' && settlement.reason === 'store-down'
      const sinceMs = port.runtime.monotonic()
      if (stop.aborted) this.#track(handover.giveBack([received]))
      else this.#hold(received, { untilMs, sinceMs, isOutage })
    }
    onSettled(received.line)
    this.#dispatchSoon()
  }

  #hold(
    received: Received,
    { untilMs, ...hold }: Omit<Hold, 'cancel'> & { readonly untilMs: number },
  ): void {
    const { runtime } = this.#options.port
    const over = (): void => {
      this.#release(received)
      const { delivery, rounds } = received
      const deliveryCount = (delivery.deliveryCount ?? 1) + 1
      // Its run may have begun.
      const again = { ...delivery, redelivered: true, deliveryCount }
      this.take({ ...received, delivery: again, rounds: rounds + 1 })
    }
    const waitMs = Math.max(0, untilMs - runtime.monotonic())
    const cancel = runtime.setTimer(over, waitMs, { keepAlive: false })
    this.#held.set(received, { ...hold, cancel })
  }

  #release(received: Received): void {
    this.#held.get(received)?.cancel()
    this.#held.delete(received)
  }

  #track(task: Promise<unknown>): void {
    const tracked = task.finally(() => this.#tasks.delete(tracked))
    this.#tasks.add(tracked)
  }
}
