import type { MaybeAsync } from '../concurrency/maybe-async.ts'
import { copyDelivery } from '../model/delivery.ts'
import type { GuardPort } from '../model/guard-port.ts'
import type { Settlement } from '../model/settlement.ts'
import { DeliveryBuffer, type RunSignals, type StartLimits } from './delivery-buffer.ts'
import { HeldDeliveries, type Hold } from './held-deliveries.ts'
import type { Delivered } from './ordering.ts'
import { PendingDeliveries, type Startable } from './pending-deliveries.ts'

/** A received message that may be held here and run again. */
export interface Received extends Delivered {
  /** How often it was held. */
  readonly rounds: number
}

/** Which of the pending deliveries may start. */
export interface StartRule<Each> {
  findStartable(pending: readonly Each[], limits: StartLimits): Startable<Each>
  started?(each: Each): void
  ended?(each: Each): void
}

/** Whether one more delivery may be held: for a short wait, or until the store is back. In a drain none may. */
export type MayHold = (why: 'short' | 'outage') => boolean

/** What becomes of the deliveries of one broker. */
export interface FlowOptions<Each extends Received> {
  readonly port: GuardPort
  readonly settings: { readonly batchSize: number; readonly lingerMs: number }
  readonly signals: RunSignals
  /** As in `RunHooks`. */
  readonly hasDeadLetterPlace: boolean
  readonly lanes: StartRule<Each>
  /** Deliveries that may wait in memory for a time of their own. */
  readonly mostHeld: number
  /**
   * Carries out a settlement. Answers until when the delivery is held here, on the monotonic clock; undefined if it is not.
   * Must neither throw nor reject.
   */
  readonly settle: (
    each: Each,
    settlement: Settlement,
    mayHold: MayHold,
  ) => MaybeAsync<number | undefined>
  /** Gives a delivery that was not started to other consumers. Must not reject. */
  readonly giveBack: (each: Each) => Promise<unknown>
  /**
   * The broker shows a held delivery to others when its time has come, so it is left to its next receive. It runs again
   * only if the store comes back before.
   */
  readonly isLeftWhenDue?: boolean | undefined
  /** Held deliveries run again: answers them in their order. */
  readonly onAgain?: ((group: readonly Each[]) => readonly Each[]) | undefined
}

/** Who brings the deliveries. */
export interface FlowEvents<Each> {
  /** Whether the broker may bring more before one of the received deliveries is settled. Asked while a batch waits. */
  readonly hasRoom: () => boolean
  /** A run ended after this time. */
  readonly onRun: (elapsedMs: number) => void
  /** The settlement is stored. */
  readonly onKnown: (settlement: Settlement) => void
  /** The broker has the settlement, or the delivery is held. */
  readonly onSettled: (each: Each) => void
  /** Slots were freed and refilled, and there may be room for more. */
  readonly onRefilled: () => void
}

/**
 * The unsettled deliveries, from the receive until the broker has their settlement: decides which of them run now, and
 * which are held.
 */
export class DeliveryFlow<Each extends Received> {
  readonly #options: FlowOptions<Each>
  readonly #events: FlowEvents<Each>
  readonly #pending: PendingDeliveries<Each>
  readonly #buffer: DeliveryBuffer<Each, number | undefined>
  readonly #held: HeldDeliveries<Each>
  readonly #mayHold: MayHold = (why) => {
    const { signals, mostHeld } = this.#options
    return !signals.stop.aborted && (why === 'outage' || this.#held.size < mostHeld)
  }

  // Functions that are handed on as they are: each message passes them.
  readonly #known = (each: Each, settlement: Settlement, elapsedMs: number): void => {
    this.#options.lanes.ended?.(each)
    // A delivery that was deferred without a run says nothing about the pace.
    if (settlement.kind !== 'defer' || settlement.reason === 'failed') this.#events.onRun(elapsedMs)
    this.#events.onKnown(settlement)
  }
  readonly #settled = (each: Each, settlement: Settlement, untilMs: number | undefined): void => {
    if (untilMs !== undefined) {
      const isOutage = settlement.kind === 'defer' && settlement.reason === 'store-down'
      if (this.#options.signals.stop.aborted) this.refuse([each])
      else this.#held.hold(each, untilMs, isOutage)
    }
    this.#events.onSettled(each)
  }

  constructor(options: FlowOptions<Each>, events: FlowEvents<Each>) {
    const { port, settings, signals, hasDeadLetterPlace, lanes } = options
    this.#options = options
    this.#events = events
    this.#held = new HeldDeliveries({
      runtime: port.runtime,
      onDue: (group, hold) => this.#takeAgain(group, hold),
    })
    this.#pending = new PendingDeliveries({
      ...{ port, settings, hasRoom: events.hasRoom },
      findStartable: (pending, limits) => lanes.findStartable(pending, limits),
      onLingerOver: () => this.#buffer.dispatch(),
    })
    this.#buffer = new DeliveryBuffer({
      ...{ port, settings, signals, hasDeadLetterPlace, pending: this.#pending },
      onStart: lanes.started?.bind(lanes),
      settle: (each, settlement) =>
        settlement.kind === 'defer' && isOfPause(port, settlement)
          ? options.giveBack(each).then(() => undefined)
          : options.settle(each, settlement, this.#mayHold),
      onKnown: this.#known,
      onSettled: this.#settled,
      onRefilled: events.onRefilled,
    })
  }

  get inFlight(): number {
    return this.undecided + this.#buffer.settling + this.#held.size
  }

  /** Deliveries that wait for a slot. */
  get pending(): number {
    return this.#pending.size
  }

  /** Deliveries that wait for a slot or run. */
  get undecided(): number {
    return this.#pending.size + this.#buffer.running
  }

  /** Deliveries whose settlement the broker has not taken yet. */
  get settling(): number {
    return this.#buffer.settling
  }

  /** Held deliveries that wait for a time of their own. */
  get deferred(): number {
    return this.#held.size - this.#held.waiting
  }

  /** Held deliveries that wait for the store. */
  get waiting(): number {
    return this.#held.waiting
  }

  take(received: readonly Each[]): void {
    this.#pending.add(received)
    this.#buffer.dispatch()
  }

  /** Takes one of several that come in one turn of the event loop. */
  takeOne(received: Each): void {
    this.#pending.add([received])
    this.#buffer.dispatchSoon()
  }

  /** Holds deliveries until the store answers, without asking it. */
  wait(received: readonly Each[]): void {
    const until = this.#options.port.runtime.now()
    for (const each of received) {
      this.#buffer.settle(each, { kind: 'defer', reason: 'store-down', until })
    }
  }

  /** The store is back. */
  resume(): void {
    this.#held.resume()
  }

  /**
   * Lets the deliveries that have waited longest for the store ask it. Returns if there are any. Always the first ones
   * received could be those whose own handler fails.
   */
  probe(): boolean {
    const group = this.#held.takeLongest()
    if (group.length > 0) this.#takeAgain(group, { isOutage: true, isResumed: true })
    return group.length > 0
  }

  /** Takes back deliveries that were not handed to the guard, or only those that wait for their first run. */
  takeBack(isMeant: (each: Each) => boolean, from: 'all' | 'pending' = 'all'): readonly Each[] {
    const held = from === 'all' ? this.#held.takeBack(isMeant) : []
    return [...this.#pending.takeBack(isMeant), ...held]
  }

  /** Returns everything that was not handed to the guard. */
  clear(): void {
    this.refuse(this.takeBack(() => true))
  }

  /** Returns deliveries to the broker. */
  refuse(received: readonly Each[]): void {
    const { giveBack } = this.#options
    this.#buffer.track(Promise.all(received.map(giveBack)), received.length)
  }

  /** Counts a receive as unsettled until it ends: what it brings goes back. */
  track(receive: Promise<unknown>): void {
    this.#buffer.track(receive)
  }

  /** Resolves when everything is settled. */
  ended(): Promise<void> {
    return this.#buffer.ended()
  }

  #takeAgain(group: readonly Each[], hold: Hold): void {
    const { isLeftWhenDue, onAgain } = this.#options
    if (isLeftWhenDue && !hold.isResumed) return
    const again = group.map((each) => runAgain(each, hold))
    this.#pending.add(onAgain?.(again) ?? again)
    this.#buffer.dispatchSoon()
  }
}

/** The guard has not started it, and a pause may last for days: it does not wait here, as it would for the store. */
const isOfPause = (
  port: GuardPort,
  { reason }: Extract<Settlement, { kind: 'defer' }>,
): boolean => {
  if (reason !== 'store-down') return false
  const availability = port.availability()
  return availability.kind === 'down' && availability.pause !== undefined
}

function runAgain<Each extends Received>(each: Each, { isOutage }: Hold): Each {
  const { delivery, rounds } = each
  // An outage costs no attempt, and a message without an event key has no other count of its attempts.
  const deliveryCount = (delivery.deliveryCount ?? 1) + (isOutage ? 0 : 1)
  // Its run may have begun.
  const again = copyDelivery(delivery, { redelivered: true, deliveryCount })
  return { ...each, delivery: again, rounds: rounds + 1 }
}
