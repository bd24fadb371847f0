import type { Settlement } from '@onceward/core'
import {
  copyDelivery,
  DeliveryBuffer,
  type GuardPort,
  HeldDeliveries,
  type Hold,
  type LoopSignals,
  PendingDeliveries,
  PullPrefetch,
  RunningLanes,
} from '@onceward/core/adapter'
import type { Received } from './delivery.ts'
import type { Settings } from './options.ts'
import { returnUnstarted, type SettleAnswer, type SettleContext, settle } from './settle.ts'

export interface DispatcherOptions {
  readonly port: GuardPort
  readonly settings: Settings
  readonly context: Omit<SettleContext, 'mayHold'>
  readonly signals: Pick<LoopSignals, 'stop' | 'abort'>
  /** The settlement is stored. */
  readonly onKnown: (settlement: Settlement) => void
  /** Redis has the settlement, or the entry is held. */
  readonly onSettled: () => void
  /** There may be room now. */
  readonly onRoom: () => void
}

/** Entries that wait in memory for their time; further ones wait beside the stream. */
const MOST_HELD = 1_000

/** The unsettled entries, from the receive until Redis has their settlement: decides which of them run now. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #context: SettleContext
  readonly #pending: PendingDeliveries<Received>
  readonly #buffer: DeliveryBuffer<Received, SettleAnswer>
  readonly #prefetch: PullPrefetch
  readonly #held: HeldDeliveries<Received>
  readonly #lanes: RunningLanes<Received>

  constructor(options: DispatcherOptions) {
    const { port, settings, signals, context, onKnown } = options
    const { concurrency, transaction } = port.settings
    const { batchSize } = settings
    this.#options = options
    this.#context = { ...context, mayHold: (why) => this.#mayHold(why) }
    context.owned.onLost = (received) => this.#drop(received)
    this.#prefetch = new PullPrefetch(
      transaction === 'batch'
        ? { slots: concurrency * batchSize, mostAhead: batchSize, chunk: batchSize }
        : { slots: concurrency, mostAhead: Math.max(concurrency, 10) },
    )
    this.#lanes = new RunningLanes(port.settings)
    this.#held = new HeldDeliveries({
      runtime: port.runtime,
      onDue: (received, hold) => this.#takeAgain(received, hold),
    })
    this.#pending = new PendingDeliveries({
      port,
      settings,
      findStartable: (pending, limits) => this.#lanes.findStartable(pending, limits),
      hasRoom: () => this.room >= this.worthwhile,
      onLingerOver: () => this.#buffer.dispatch(),
    })
    this.#buffer = new DeliveryBuffer({
      port,
      settings,
      signals,
      hasDeadLetterPlace: settings.deadLetter !== undefined,
      pending: this.#pending,
      onStart: (received) => this.#lanes.started(received),
      settle: (received, settlement) => settle(this.#context, received, settlement),
      onKnown: (received, settlement, elapsedMs) => {
        this.#lanes.ended(received)
        // An entry that was deferred without a run says nothing about the pace.
        if (settlement.kind !== 'defer' || settlement.reason === 'failed') {
          this.#prefetch.note(elapsedMs)
        }
        onKnown(settlement)
      },
      onSettled: (received, settlement, answer) => this.#settled(received, settlement, answer),
      onRefilled: options.onRoom,
    })
  }

  get inFlight(): number {
    return this.#pending.size + this.#buffer.running + this.#buffer.settling + this.#held.size
  }

  /** How many more entries may be received. */
  get room(): number {
    const { capacity } = this.#prefetch
    // Settling waits for Redis, not for a handler. The bound matters only if Redis hangs.
    if (this.#buffer.settling > 2 * capacity + 50) return 0
    const waitingForStore = this.#held.size - this.#held.deferred
    return capacity - this.#pending.size - this.#buffer.running - waitingForStore
  }

  /** The least room that is worth a receive: prefetched entries keep the handlers busy meanwhile. */
  get worthwhile(): number {
    return this.#prefetch.worthwhile
  }

  /** A receive took this long although entries were there: so many more have to be fetched meanwhile. */
  noteReceive(elapsedMs: number): void {
    this.#prefetch.noteReceive(elapsedMs)
  }

  take(received: readonly Received[]): void {
    this.#pending.add(received)
    this.#buffer.dispatch()
  }

  /** Holds entries until the store answers, without asking it. */
  wait(received: readonly Received[]): void {
    const until = this.#options.port.runtime.now()
    for (const each of received) {
      this.#buffer.settle(each, { kind: 'defer', reason: 'store-down', until })
    }
  }

  /** The store is back. */
  resume(): void {
    this.#held.resume()
  }

  /** Returns all entries that were not handed to the guard. */
  clear(): void {
    this.refuse([...this.#pending.takeBack(), ...this.#held.takeBack()])
  }

  /** Returns entries to the group. */
  refuse(received: readonly Received[]): void {
    const returned = Promise.all(received.map((each) => returnUnstarted(this.#context, each)))
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

  #mayHold(why: 'short' | 'outage'): boolean {
    if (this.#options.signals.stop.aborted) return false
    return why === 'outage' || this.#held.deferred < MOST_HELD
  }

  /** Another consumer owns the entry, so it must not start here. A run that has begun ends. */
  #drop(lost: Received): void {
    for (const each of [this.#pending, this.#held]) {
      each.takeBack(({ entry }) => entry === lost.entry)
    }
  }

  #settled(received: Received, settlement: Settlement, untilMs: SettleAnswer): void {
    const { onSettled, signals } = this.#options
    if (untilMs !== undefined) {
      const isOutage = settlement.kind === 'defer' && settlement.reason === 'store-down'
      if (signals.stop.aborted) this.refuse([received])
      else this.#held.hold(received, untilMs, { isOutage })
    }
    onSettled()
  }

  #takeAgain(received: Received, { isOutage }: Hold): void {
    const { delivery, rounds } = received
    // An outage costs no attempt, and an entry without an event key has no other count of its attempts.
    const deliveryCount = (delivery.deliveryCount ?? 1) + (isOutage ? 0 : 1)
    // Its run may have begun.
    const again = copyDelivery(delivery, { redelivered: true, deliveryCount })
    this.take([{ ...received, delivery: again, rounds: rounds + 1 }])
  }
}
