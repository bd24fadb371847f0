import type { Settlement } from '@onceward/core'
import { byOrderingKey, type GuardPort, Prefetch, SharedSlots } from '@onceward/core/adapter'
import type { Handover } from './handover.ts'
import type { Settings } from './options.ts'
import type { Hidden } from './settle.ts'
import type { Received } from './visibility.ts'

/** A message that is visible again within this is left to its next receive. */
const MARGIN_MS = 2_000
/** Before a parked message asks a store again that is said to be available. */
const REST_MS = 1_000

export interface IntakeOptions {
  readonly port: GuardPort
  readonly handover: Handover
  readonly settings: Settings
  readonly stop: AbortSignal
  readonly abort: AbortSignal
  readonly onKnown: (settlement: Settlement) => void
  /** There may be room now, or something to take up. */
  readonly onRoom: () => void
  readonly onSettled: () => void
}

interface Parked extends Received {
  /** Set by its own timer: one that fires a fraction early must not leave the message to a wake-up that never comes. */
  isRested: boolean
}

/** The messages in hand, from the receive to the last word to SQS. */
export class Intake {
  readonly #options: IntakeOptions
  readonly #pace: Prefetch
  readonly #isBatch: boolean
  readonly #tasks = new Set<Promise<unknown>>()
  #pending: (readonly Received[])[] = []
  /** Hidden until the store answers again. */
  #waiting: Parked[] = []
  /** Transactions that the guard may be in: what it was handed is not ours to give back. */
  #busySlots = 0
  #inHand = 0
  #settling = 0
  #isRefilling = false
  #lingered = false
  #cancelLinger: (() => void) | undefined

  constructor(options: IntakeOptions) {
    this.#options = options
    const { concurrency, transaction } = options.port.settings
    const { batchSize } = options.settings
    this.#isBatch = transaction === 'batch'
    this.#pace = this.#isBatch
      ? new Prefetch(concurrency * batchSize, batchSize)
      : new Prefetch(concurrency, Math.max(concurrency, 10))
  }

  get inFlight(): number {
    return this.#inHand + this.#settling + this.#waiting.length
  }

  get capacity(): number {
    return this.#pace.capacity
  }

  /** How many more messages may be asked for. */
  get room(): number {
    const { capacity } = this.#pace
    // Settling waits for SQS, not for a handler; but were SQS to hang, there is an end to it.
    if (this.#settling > 2 * capacity + 50) return 0
    return capacity - this.#inHand - this.#waiting.length
  }

  /** The least room that is worth a receive: what was taken ahead keeps the handlers busy meanwhile. */
  get worthwhile(): number {
    return Math.max(1, Math.min(10, this.#pace.ahead))
  }

  take(received: readonly Received[]): void {
    const { runtime } = this.#options.port
    const { lingerMs } = this.#options.settings
    this.#inHand += received.length
    this.#pending.push(...byOrderingKey(received))
    if (lingerMs === 0) this.#lingered = true
    else this.#cancelLinger ??= runtime.setTimer(() => this.#endLinger(), lingerMs)
    this.#dispatch()
  }

  /** Hides messages until the store answers, without asking it. */
  park(received: readonly Received[]): void {
    const { handover, port } = this.#options
    const settlement = { kind: 'defer', reason: 'store-down', until: port.runtime.now() } as const
    for (const each of received) {
      this.#settling += 1
      const parked = handover.settle(each, settlement)
      this.#track(parked.then((hidden) => this.#settled(each, settlement, hidden)))
    }
  }

  /**
   * Takes up what was parked: the group that has waited longest, or all that have rested; answers whether there was any.
   * Longest, not first: one whose handler is all that fails must not be the only one to ask the store.
   */
  resume(most: 'one' | 'all'): boolean {
    const { handover, port } = this.#options
    const nowMs = port.runtime.monotonic()
    const hidden = this.#waiting.filter(({ hiddenUntilMs }) => hiddenUntilMs > nowMs + MARGIN_MS)
    const group =
      most === 'all' ? hidden.filter(({ isRested }) => isRested) : byOrderingKey(hidden)[0]
    const chosen = (group ?? []).toSorted((a, b) => a.sequence - b.sequence)
    this.#waiting = hidden.filter((each) => !chosen.includes(each))
    for (const received of chosen) handover.hold(received)
    this.take(chosen)
    return chosen.length > 0
  }

  /** Gives back everything that the guard has not been handed. */
  clear(): void {
    this.#endLinger()
    const unstarted = [...this.#pending.flat(), ...this.#waiting]
    this.#inHand -= unstarted.length - this.#waiting.length
    this.#pending = []
    this.#waiting = []
    this.refuse(unstarted)
  }

  /** Gives back messages that came too late. */
  refuse(received: readonly Received[]): void {
    this.#settling += received.length
    const back = this.#options.handover.giveBack(received)
    this.#track(
      back.finally(() => {
        this.#settling -= received.length
      }),
    )
  }

  /** Resolves when nothing is in hand. */
  async ended(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.allSettled(this.#tasks)
  }

  #endLinger(): void {
    this.#cancelLinger?.()
    this.#cancelLinger = undefined
    this.#lingered = true
    this.#dispatch()
  }

  /** All slots that this turn of the event loop frees are filled by one call of the guard. */
  #refillSoon(): void {
    if (this.#isRefilling) return
    this.#isRefilling = true
    setImmediate(() => {
      this.#isRefilling = false
      this.#dispatch()
      this.#options.onRoom()
    })
  }

  #dispatch(): void {
    const { stop, port } = this.#options
    while (!stop.aborted && this.#pending.length > 0) {
      const free = port.settings.concurrency - this.#busySlots
      const groups =
        free > 0 ? this.#nextGroups(this.#isBatch ? Number.POSITIVE_INFINITY : free) : []
      if (groups.length === 0) return
      this.#run(groups)
    }
    this.#lingered = false
    this.#cancelLinger?.()
    this.#cancelLinger = undefined
  }

  /** None while a fuller batch is worth the wait. */
  #nextGroups(most: number): readonly (readonly Received[])[] {
    const { batchSize } = this.#options.settings
    let size = 0
    let count = 0
    for (const group of this.#pending.slice(0, most)) {
      if (count > 0 && size + group.length > batchSize) break
      size += group.length
      count += 1
    }
    const isFull = count < this.#pending.length || size >= batchSize
    return isFull || this.#lingered ? this.#pending.splice(0, count) : []
  }

  #run(groups: readonly (readonly Received[])[]): void {
    const { handover, port, stop, abort, onKnown } = this.#options
    const startedAtMs = port.runtime.monotonic()
    const slots = new SharedSlots(this.#isBatch ? [groups.flat()] : groups)
    this.#busySlots += slots.busy
    const run = handover.run(groups.flat(), {
      stop,
      abort,
      onKnown: (received, settlement) => {
        this.#pace.note(port.runtime.monotonic() - startedAtMs)
        this.#inHand -= 1
        this.#settling += 1
        if (slots.known(received)) this.#busySlots -= 1
        onKnown(settlement)
        this.#refillSoon()
      },
      onSettled: (received, settlement, hidden) => this.#settled(received, settlement, hidden),
    })
    this.#track(run)
  }

  #settled(received: Received, settlement: Settlement, hidden: Hidden): void {
    this.#settling -= 1
    const waits = settlement.kind === 'defer' && settlement.reason === 'store-down'
    if (waits && hidden !== undefined && !this.#options.stop.aborted) this.#wait(received, hidden)
    this.#options.onSettled()
    this.#refillSoon()
  }

  #wait(received: Received, hiddenUntilMs: number): void {
    const { port, onRoom } = this.#options
    // Its run may have begun.
    const delivery = { ...received.delivery, redelivered: true }
    const parked: Parked = { ...received, delivery, hiddenUntilMs, isRested: false }
    this.#waiting.push(parked)
    const rested = (): void => {
      parked.isRested = true
      onRoom()
    }
    port.runtime.setTimer(rested, REST_MS, { keepAlive: false })
  }

  #track(task: Promise<unknown>): void {
    const tracked = task.finally(() => this.#tasks.delete(tracked))
    this.#tasks.add(tracked)
  }
}
