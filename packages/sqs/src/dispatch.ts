import type { Settlement } from '@onceward/core'
import {
  asRedelivered,
  byOrderingKey,
  DeliveryBuffer,
  type GuardPort,
  type LoopSignals,
  PendingDeliveries,
  PullPrefetch,
  type Startable,
  type StartLimits,
} from '@onceward/core/adapter'
import { ENTRIES } from './client.ts'
import type { Settings } from './options.ts'
import { returnUnstarted, type SettleAnswer, type SettleContext, settle } from './settle.ts'
import type { Received } from './visibility.ts'

/** A message that is visible again within this time is left to its next receive. */
const MARGIN_MS = 2_000
/** A parked message waits this long before it probes a store that is reported as available again. */
const REST_MS = 1_000

export interface DispatcherOptions {
  readonly port: GuardPort
  readonly settings: Settings
  readonly context: SettleContext
  readonly signals: Pick<LoopSignals, 'stop' | 'abort'>
  /** The settlement is stored. */
  readonly onKnown: (settlement: Settlement) => void
  /** SQS has the settlement. */
  readonly onSettled: () => void
  /** There may be room now, or something to resume. */
  readonly onRoom: () => void
}

interface Parked extends Received {
  /** Set by a timer. Comparing clocks instead, a timer that fires a fraction early would leave the message parked. */
  isRested: boolean
}

/** The unsettled messages, from the receive until SQS has taken their settlement: decides which of them run now. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #pending: PendingDeliveries<Received>
  readonly #buffer: DeliveryBuffer<Received, SettleAnswer>
  readonly #prefetch: PullPrefetch
  /** Hidden until the store answers again. */
  #parked: Parked[] = []

  constructor(options: DispatcherOptions) {
    const { port, settings, signals, context, onKnown } = options
    const { concurrency, transaction } = port.settings
    const { batchSize } = settings
    this.#options = options
    this.#prefetch = new PullPrefetch(
      transaction === 'batch'
        ? { slots: concurrency * batchSize, mostAhead: batchSize, chunk: batchSize }
        : { slots: concurrency, mostAhead: Math.max(concurrency, ENTRIES) },
    )
    this.#pending = new PendingDeliveries({
      port,
      settings,
      findStartable,
      hasRoom: () => this.room >= this.worthwhile,
      onLingerOver: () => this.#buffer.dispatch(),
    })
    this.#buffer = new DeliveryBuffer({
      port,
      settings,
      signals,
      hasDeadLetterPlace: settings.deadLetter !== undefined,
      pending: this.#pending,
      settle: (received, settlement) => settle(context, received, settlement),
      onKnown: (_received, settlement, elapsedMs) => {
        this.#prefetch.note(elapsedMs)
        onKnown(settlement)
      },
      onSettled: (received, settlement, answer) => this.#settled(received, settlement, answer),
      onRefilled: options.onRoom,
    })
  }

  get inFlight(): number {
    return this.#undecided + this.#buffer.settling + this.#parked.length
  }

  get #undecided(): number {
    return this.#pending.size + this.#buffer.running
  }

  get capacity(): number {
    return this.#prefetch.capacity
  }

  /** How many more messages may be received. */
  get room(): number {
    const { capacity } = this.#prefetch
    // Settling waits for SQS, not for a handler. The bound matters only if SQS hangs.
    if (this.#buffer.settling > 2 * capacity + 50) return 0
    return capacity - this.#undecided - this.#parked.length
  }

  /** The least room that is worth a receive: prefetched messages keep the handlers busy meanwhile. */
  get worthwhile(): number {
    return Math.min(ENTRIES, this.#prefetch.worthwhile)
  }

  /** A receive took this long although messages were there: so many more have to be fetched meanwhile. */
  noteReceive(elapsedMs: number): void {
    this.#prefetch.noteReceive(elapsedMs)
  }

  take(received: readonly Received[]): void {
    this.#pending.add(byOrderingKey(received).flat())
    this.#buffer.dispatch()
  }

  /** Hides messages until the store answers, without probing it. */
  park(received: readonly Received[]): void {
    const until = this.#options.port.runtime.now()
    for (const each of received) {
      this.#buffer.settle(each, { kind: 'defer', reason: 'store-down', until })
    }
  }

  /**
   * Resumes parked messages: the group that has waited longest, or all whose pause is over. Returns if any was.
   *
   * If it always resumed the first group, a group whose own handler fails could be the only one to probe the store.
   */
  resume(most: 'one' | 'all'): boolean {
    const { context, port } = this.#options
    const nowMs = port.runtime.monotonic()
    const hidden = this.#parked.filter(({ hiddenUntilMs }) => hiddenUntilMs > nowMs + MARGIN_MS)
    const group =
      most === 'all' ? hidden.filter(({ isRested }) => isRested) : byOrderingKey(hidden)[0]
    const chosen = (group ?? []).toSorted((a, b) => a.sequence - b.sequence)
    this.#parked = hidden.filter((each) => !chosen.includes(each))
    for (const received of chosen) context.ticker.hold(received)
    this.take(chosen)
    return chosen.length > 0
  }

  /** Returns all messages that were not handed to the guard. */
  clear(): void {
    const unstarted = [...this.#pending.takeBack(), ...this.#parked]
    this.#parked = []
    this.refuse(unstarted)
  }

  /** Returns messages to the queue. */
  refuse(received: readonly Received[]): void {
    const { context } = this.#options
    const returned = Promise.all(received.map((each) => returnUnstarted(context, each)))
    this.#buffer.track(returned, received.length)
  }

  /** Counts a receive as unsettled until it ends: what it brings goes back. */
  track(receive: Promise<void>): void {
    this.#buffer.track(receive)
  }

  /** Resolves when everything is settled. */
  ended(): Promise<void> {
    return this.#buffer.ended()
  }

  #settled(received: Received, settlement: Settlement, hiddenUntilMs: SettleAnswer): void {
    const { signals, onSettled } = this.#options
    const isOutage = settlement.kind === 'defer' && settlement.reason === 'store-down'
    if (isOutage && hiddenUntilMs !== undefined && !signals.stop.aborted) {
      this.#keepParked(received, hiddenUntilMs)
    }
    onSettled()
  }

  #keepParked(received: Received, hiddenUntilMs: number): void {
    const { port, onRoom } = this.#options
    // The earlier run may have started.
    const delivery = asRedelivered(received.delivery)
    const parked: Parked = { ...received, delivery, hiddenUntilMs, isRested: false }
    this.#parked.push(parked)
    const rested = (): void => {
      parked.isRested = true
      onRoom()
    }
    port.runtime.setTimer(rested, REST_MS, { keepAlive: false })
  }
}

/** Takes whole groups only: SQS delivers no more of a group while some of it is in flight, so splitting gains nothing. */
function findStartable(pending: readonly Received[], limits: StartLimits): Startable<Received> {
  const groups: (readonly Received[])[] = []
  let considered = 0
  while (groups.length < limits.groups && considered < pending.length) {
    const end = endOfGroup(pending, considered)
    if (considered > 0 && end > limits.deliveries) break
    groups.push(pending.slice(considered, end))
    considered = end
  }
  return { groups, considered, blocked: [] }
}

function endOfGroup(pending: readonly Received[], start: number): number {
  const key = pending[start]?.delivery.orderingKey
  let end = start + 1
  while (key !== undefined && pending[end]?.delivery.orderingKey === key) end += 1
  return end
}
