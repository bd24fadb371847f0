import type { Settlement } from '@onceward/core'
import {
  copyDelivery,
  DeliveryBuffer,
  type GuardPort,
  HeldDeliveries,
  type Hold,
  type LoopSignals,
  PendingDeliveries,
  PushPrefetch,
  RunningLanes,
} from '@onceward/core/adapter'
import type { DeliveryChannel } from './clients/amqplib.ts'
import type { Received } from './delivery.ts'
import type { Settings } from './options.ts'
import {
  requeue,
  returnUnstarted,
  type SettleAnswer,
  type SettleContext,
  settle,
} from './settle.ts'

/** The ages of unstarted messages are looked at this often. */
const LOOK_MS = 15_000

export interface DispatcherOptions {
  readonly port: GuardPort
  readonly settings: Settings
  readonly context: Omit<SettleContext, 'mayHold'>
  readonly signals: Pick<LoopSignals, 'stop' | 'abort'>
  /** The settlement is stored. */
  readonly onKnown: (settlement: Settlement) => void
  /** The broker has the settlement, or the message is held. */
  readonly onSettled: (channel: DeliveryChannel) => void
}

/**
 * The unsettled messages, from the delivery until their settlement. Decides which of them run now. The prefetch limits
 * their number.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #context: SettleContext
  readonly #pending: PendingDeliveries<Received>
  readonly #buffer: DeliveryBuffer<Received, SettleAnswer>
  readonly #prefetch: PushPrefetch
  readonly #held: HeldDeliveries<Received>
  readonly #lanes: RunningLanes<Received>
  #cancelLook: (() => void) | undefined

  constructor(options: DispatcherOptions) {
    const { port, settings, signals, context, onKnown } = options
    const isBatch = port.settings.transaction === 'batch'
    const slots = isBatch ? settings.batchSize : port.settings.concurrency
    this.#options = options
    // A message makes two round trips to its store at least, and the next one comes within one to the broker: half of
    // the slots again keep them busy. The next batch is received while one runs.
    const size = isBatch ? slots : Math.ceil(slots / 2)
    this.#prefetch = new PushPrefetch({ slots, size, most: settings.prefetch })
    this.#context = { ...context, mayHold: (why) => this.mayHold(why) }
    this.#lanes = new RunningLanes(port.settings)
    this.#held = new HeldDeliveries({
      runtime: port.runtime,
      onDue: (received, hold) => this.#takeAgain(received, hold),
    })
    this.#pending = new PendingDeliveries({
      port,
      settings,
      findStartable: (pending, limits) => this.#lanes.findStartable(pending, limits),
      hasRoom: () => this.inFlight < this.prefetches.reduce((sum, prefetch) => sum + prefetch, 0),
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
        // A message that was deferred without a run says nothing about the pace.
        if (settlement.kind !== 'defer' || settlement.reason === 'failed') {
          this.#prefetch.note(elapsedMs)
        }
        onKnown(settlement)
      },
      onSettled: (received, settlement, answer) => this.#settled(received, settlement, answer),
      onRefilled: () => this.#look(),
    })
  }

  get inFlight(): number {
    return this.#pending.size + this.#buffer.running + this.#buffer.settling + this.#held.size
  }

  /** The prefetch of each consumer that there should be. */
  get prefetches(): readonly number[] {
    const { settings, port } = this.#options
    if (settings.isPrefetchFixed) return [settings.prefetch]
    // While the store is down no other message could run either.
    const waiting = this.#buffer.settling + this.#held.deferred
    const blocked = Math.min(this.#lanes.blocked, this.#pending.size)
    return this.#prefetch.prefetches({ waiting, blocked }, port.runtime.monotonic())
  }

  /** Half of the prefetch stays free for messages that can run; while the store is down none can. */
  mayHold(why: 'short' | 'outage'): boolean {
    if (this.#options.signals.stop.aborted) return false
    return why === 'outage' || this.#held.size + 1 <= this.#options.settings.prefetch / 2
  }

  take(received: Received): void {
    this.#pending.add([received])
    this.#buffer.dispatchSoon()
  }

  /** The store is back. */
  resume(): void {
    this.#held.resume()
  }

  /** Drops the unstarted messages of a closed channel, because the broker has them back. */
  drop(channel: DeliveryChannel): void {
    for (const each of [this.#pending, this.#held]) {
      each.takeBack((received) => received.channel === channel)
    }
    this.#look()
  }

  /** Returns all messages that were not handed to the guard. */
  clear(): void {
    this.#returnUnstarted([...this.#pending.takeBack(), ...this.#held.takeBack()])
    this.#look()
  }

  /** Resolves when everything is settled. */
  ended(): Promise<void> {
    return this.#buffer.ended()
  }

  /** Gives back what has waited for so long that the server would take it back before its handler's deadline (A6). */
  #look(): void {
    const { port, settings, onSettled } = this.#options
    const isNeeded = this.#pending.size > 0
    if (!isNeeded) {
      this.#cancelLook?.()
      this.#cancelLook = undefined
    }
    if (!isNeeded || this.#cancelLook !== undefined) return
    const over = (): void => {
      this.#cancelLook = undefined
      const beforeMs = port.runtime.monotonic() - settings.oldestMs
      for (const received of this.#pending.takeBack((each) => each.receivedAtMs < beforeMs)) {
        requeue(this.#context, received)
        onSettled(received.channel)
      }
      this.#look()
    }
    this.#cancelLook = port.runtime.setTimer(over, LOOK_MS, { keepAlive: false })
  }

  #settled(received: Received, settlement: Settlement, untilMs: SettleAnswer): void {
    const { onSettled, signals } = this.#options
    if (untilMs !== undefined && received.channel.isOpen) {
      const isOutage = settlement.kind === 'defer' && settlement.reason === 'store-down'
      if (signals.stop.aborted) this.#returnUnstarted([received])
      else this.#held.hold(received, untilMs, { isOutage })
    }
    onSettled(received.channel)
  }

  #takeAgain(received: Received, { isOutage }: Hold): void {
    const { delivery, rounds } = received
    // An outage costs no attempt, and a message without an event key has no other count of its attempts.
    const deliveryCount = (delivery.deliveryCount ?? 1) + (isOutage ? 0 : 1)
    // Its run may have begun.
    const again = copyDelivery(delivery, { redelivered: true, deliveryCount })
    this.take({ ...received, delivery: again, rounds: rounds + 1 })
  }

  #returnUnstarted(received: readonly Received[]): void {
    this.#buffer.track(Promise.all(received.map((each) => returnUnstarted(this.#context, each))))
  }
}
