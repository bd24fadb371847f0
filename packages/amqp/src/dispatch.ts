import type { Settlement } from '@onceward/core'
import {
  andThen,
  DeliveryFlow,
  type FlowOptions,
  type GuardPort,
  type LoopSignals,
  PushPrefetch,
  RunningLanes,
} from '@onceward/core/adapter'
import type { DeliveryChannel } from './clients/amqplib.ts'
import type { Received } from './delivery.ts'
import type { Settings } from './options.ts'
import { requeue, returnUnstarted, type SettleContext, settle } from './settle.ts'

/** The ages of unstarted messages are looked at this often. */
const LOOK_MS = 15_000

export interface DispatcherOptions {
  readonly port: GuardPort
  readonly settings: Settings
  readonly context: Omit<SettleContext, 'mayHold' | 'stopDeliveries'>
  readonly signals: Pick<LoopSignals, 'stop' | 'abort'>
  readonly events: DispatcherEvents
}

/** Who brings the messages. */
export interface DispatcherEvents extends Pick<SettleContext, 'stopDeliveries'> {
  /** The settlement is stored. */
  readonly onKnown: (settlement: Settlement) => void
  /** The broker has the settlement, or the message is held. */
  readonly onSettled: (received: Pick<Received, 'channel'>) => void
}

/**
 * The unsettled messages, from the delivery until their settlement. Decides which of them run now. The prefetch limits
 * their number.
 */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #flow: DeliveryFlow<Received>
  readonly #prefetch: PushPrefetch
  readonly #lanes: RunningLanes<Received>
  #cancelLook: (() => void) | undefined

  constructor(options: DispatcherOptions) {
    const { port, settings, signals, events } = options
    const context = { ...options.context, stopDeliveries: events.stopDeliveries }
    const isBatch = port.settings.transaction === 'batch'
    const slots = isBatch ? settings.batchSize : port.settings.concurrency
    this.#options = options
    // A message makes two round trips to its store at least, and the next one comes within one to the broker: half of
    // the slots again keep them busy. The next batch is received while one runs.
    const size = isBatch ? slots : Math.ceil(slots / 2)
    this.#prefetch = new PushPrefetch({ slots, size, most: settings.prefetch })
    this.#lanes = new RunningLanes(port.settings)
    const flow: FlowOptions<Received> = {
      ...{ port, settings, signals, lanes: this.#lanes },
      hasDeadLetterPlace: settings.deadLetter !== undefined,
      // Half of the prefetch stays free for messages that can run; while the store is down none can.
      mostHeld: Math.floor(settings.prefetch / 2),
      settle: (received, settlement, mayHold) =>
        // A message whose channel was closed meanwhile is not held: the broker has it back.
        andThen(settle({ ...context, mayHold }, received, settlement), (untilMs) =>
          received.channel.isOpen ? untilMs : undefined,
        ),
      giveBack: (received) => returnUnstarted(context, received),
    }
    this.#flow = new DeliveryFlow(flow, {
      hasRoom: () => this.inFlight < this.prefetches.reduce((sum, prefetch) => sum + prefetch, 0),
      onRun: this.#prefetch.note.bind(this.#prefetch),
      onKnown: events.onKnown,
      onSettled: events.onSettled,
      onRefilled: () => this.#look(),
    })
  }

  get inFlight(): number {
    return this.#flow.inFlight
  }

  /** The prefetch of each consumer that there should be. */
  get prefetches(): readonly number[] {
    const { settings, port } = this.#options
    if (settings.isPrefetchFixed) return [settings.prefetch]
    // While the store is down no other message could run either.
    const { pending, settling, deferred } = this.#flow
    const waiting = settling + deferred
    const blocked = Math.min(this.#lanes.blocked, pending)
    return this.#prefetch.prefetches({ waiting, blocked }, port.runtime.monotonic())
  }

  take(received: Received): void {
    this.#flow.takeOne(received)
  }

  /** The store is back. */
  resume(): void {
    this.#flow.resume()
  }

  /** Drops the unstarted messages of a closed channel, because the broker has them back. */
  drop(channel: DeliveryChannel): void {
    this.#flow.takeBack((received) => received.channel === channel)
    this.#look()
  }

  /** Returns all messages that were not handed to the guard. */
  clear(): void {
    this.#flow.clear()
    this.#look()
  }

  /** Resolves when everything is settled. */
  ended(): Promise<void> {
    return this.#flow.ended()
  }

  /** Gives back what has waited for so long that the server would take it back before its handler's deadline (A6). */
  #look(): void {
    const { port, settings, context, events } = this.#options
    const isNeeded = this.#flow.pending > 0
    if (!isNeeded) {
      this.#cancelLook?.()
      this.#cancelLook = undefined
    }
    if (!isNeeded || this.#cancelLook !== undefined) return
    const over = (): void => {
      this.#cancelLook = undefined
      const beforeMs = port.runtime.monotonic() - settings.oldestMs
      const isOld = (received: Received) => received.receivedAtMs < beforeMs
      for (const received of this.#flow.takeBack(isOld, 'pending')) {
        requeue(context, received)
        events.onSettled(received)
      }
      this.#look()
    }
    this.#cancelLook = port.runtime.setTimer(over, LOOK_MS, { keepAlive: false })
  }
}
