import type { Settlement } from '@onceward/core'
import {
  type Delivered,
  DeliveryBuffer,
  type GuardCall,
  type GuardPort,
  isGuardClosed,
  type LoopSignals,
  STORE_LOOK_MS,
  type StartLimits,
  StoreGate,
} from '@onceward/core/adapter'
import type { PulledBatch } from './clients/pulled/pulled-batch.ts'
import type { PulledBatches } from './clients/pulled/pulled-batches.ts'
import type { RecordInHand } from './clients/record-in-hand.ts'
import type { Partition } from './offsets.ts'
import type { Settings } from './options.ts'
import { createSettleContext, type SettleAnswer, type SettleContext, settle } from './settle.ts'

export interface DispatcherOptions {
  readonly port: GuardPort
  readonly settings: Settings
  /** The fetched records, each in the batch of its partition. */
  readonly batches: Pick<
    PulledBatches,
    'open' | 'isHeld' | 'suspectUntilMs' | 'commit' | 'met' | 'inFlight' | 'clear' | 'ended'
  >
  readonly signals: Pick<LoopSignals, 'stop' | 'abort'>
  /** The settlement is stored. */
  readonly onKnown: (settlement: Settlement) => void
}

/** A record that runs, and the records of its partition. */
interface Running extends Delivered {
  readonly item: RecordInHand
  readonly batch: PulledBatch
}

/** Decides which of the fetched records run now, and carries out their settlements. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #context: SettleContext
  readonly #buffer: DeliveryBuffer<Running, SettleAnswer>
  readonly #store: StoreGate
  /** The partition whose records ran last. */
  #last: Partition | undefined
  #wake: { readonly atMs: number; readonly cancel: () => void } | undefined

  constructor(options: DispatcherOptions) {
    const { port, settings, signals } = options
    this.#options = options
    this.#context = createSettleContext(port, settings)
    this.#store = new StoreGate(port)
    this.#buffer = new DeliveryBuffer({
      port,
      settings,
      signals,
      hasDeadLetterPlace: this.#context.place.kind === 'publish',
      pending: { take: (limits) => this.#take(limits) },
      settle: ({ item }, settlement) => settle(this.#context, item.record, settlement),
      onKnown: (running, settlement) => this.#known(running, settlement),
      onSettled: (running, _settlement, answer) => this.#settled(running, answer),
    })
  }

  /** Records that were fetched and are not settled. */
  get inFlight(): number {
    return this.#options.batches.inFlight
  }

  /** Starts nothing more: unstarted records are left to the next member. */
  clear(): void {
    this.#options.batches.clear()
  }

  /** Resolves when nothing runs and every offset was committed. Never rejects. */
  ended(): Promise<void> {
    return this.#options.batches.ended()
  }

  /** Ends the timer that would outlive the consumer. */
  close(): void {
    this.#wake?.cancel()
    this.#wake = undefined
  }

  /** Hands the records that may run now to the guard. */
  pump(): void {
    this.#buffer.dispatch()
  }

  /** Records of one partition. While the store is down, one record at a time probes whether it is back. */
  #take(limits: StartLimits): GuardCall<Running> | undefined {
    const { port, batches } = this.#options
    if (batches.isHeld) return undefined
    const nowMs = port.runtime.monotonic()
    const gate = this.#store.look()
    if (gate.kind === 'shut') {
      this.#wakeAt(nowMs + Math.min(gate.waitMs || STORE_LOOK_MS, STORE_LOOK_MS))
      return undefined
    }
    const isProbe = gate.kind === 'probe'
    const call = this.#next(isProbe ? 1 : this.#most(limits), nowMs)
    if (call === undefined) this.#wakeWhenDue(nowMs)
    else if (isProbe) this.#store.probing()
    return call
  }

  /** Records for the free slots, and no more: the next ones are in memory, so a slot that gets free is filled at once. */
  #most({ groups, deliveries }: StartLimits): number {
    // Only the guard knows the lanes, so a partition has one call at a time, which must keep all slots busy.
    return this.#options.port.settings.lanesAreUsers ? deliveries : Math.min(groups, deliveries)
  }

  /** Partitions take turns: the one that ran last comes last. */
  #next(most: number, nowMs: number): GuardCall<Running> | undefined {
    const { open: batches } = this.#options.batches
    const { topic, partition } = this.#last ?? {}
    const isLast = (batch: Partition) => batch.topic === topic && batch.partition === partition
    const next = 1 + batches.findIndex(isLast)
    for (const batch of [...batches.slice(next), ...batches.slice(0, next)]) {
      const call = this.#callOf(batch, most, nowMs)
      if (call === undefined) continue
      this.#last = { topic: batch.topic, partition: batch.partition }
      return call
    }
    return undefined
  }

  #callOf(batch: PulledBatch, most: number, nowMs: number): GuardCall<Running> | undefined {
    if (batch.isCommitting || batch.stop.signal.aborted) return undefined
    const isSuspect = nowMs < this.#options.batches.suspectUntilMs
    if (isSuspect && batch.progress.running > 0) return undefined
    const taken = batch.progress.take(nowMs, most)
    if (taken.length === 0) return undefined
    if (isSuspect) for (const item of taken) item.suspect()
    return {
      groups: batch.progress
        .byLane(taken)
        .map((items) => items.map((item) => ({ item, batch, delivery: item.delivery }))),
      signals: { stop: batch.stop.signal, abort: batch.abort.signal },
      onEnded: isSuspect ? () => this.#commitFirst(batch) : undefined,
    }
  }

  /** While records are suspect, none starts before the offset of the ones before it is committed (design.md §6). */
  async #commitFirst(batch: PulledBatch): Promise<void> {
    if (batch.isOver) return
    batch.isCommitting = true
    await this.#options.batches.commit(batch)
    batch.isCommitting = false
  }

  #known({ item, batch }: Running, settlement: Settlement): void {
    this.#store.answered()
    // A stopped batch gives the same settlement as a closed guard. Only from other batches it means a closed guard.
    if (!(batch.stop.signal.aborted && isGuardClosed(settlement))) {
      this.#options.onKnown(settlement)
    }
    // An outage, or a record that waits for another one, costs no attempt.
    if (settlement.kind === 'defer' && settlement.reason === 'failed') item.countFailure()
  }

  #settled({ item, batch }: Running, answer: SettleAnswer): void {
    const nowMs = this.#options.port.runtime.monotonic()
    if (answer.kind === 'settled') batch.progress.settle(item)
    else batch.progress.postpone(item, dueOf(answer, nowMs))
    this.#options.batches.met(batch)
  }

  #wakeWhenDue(nowMs: number): void {
    const { open, suspectUntilMs } = this.#options.batches
    // Records behind a suspect one that runs long may start when the time of suspicion is over.
    const trustedMs = suspectUntilMs > nowMs ? suspectUntilMs : Number.POSITIVE_INFINITY
    const dueMs = Math.min(trustedMs, ...open.map(({ progress }) => progress.nextDueMs(nowMs)))
    if (Number.isFinite(dueMs)) this.#wakeAt(dueMs)
  }

  #wakeAt(atMs: number): void {
    if (this.#wake !== undefined && this.#wake.atMs <= atMs) return
    this.#wake?.cancel()
    const { runtime } = this.#options.port
    const wake = (): void => {
      this.#wake = undefined
      this.pump()
    }
    // A timer may fire a fraction early.
    const delayMs = Math.max(0, atMs - runtime.monotonic()) + 1
    this.#wake = { atMs, cancel: runtime.setTimer(wake, delayMs, { keepAlive: false }) }
  }
}

function dueOf(answer: Exclude<SettleAnswer, { kind: 'settled' }>, nowMs: number): number {
  if (answer.kind === 'later') return nowMs + answer.waitMs
  return answer.kind === 'left' ? Number.POSITIVE_INFINITY : nowMs
}
