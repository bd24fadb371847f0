import type { Settlement } from '@onceward/core'
import {
  andThen,
  type GuardPort,
  isGuardClosed,
  oncePerTurn,
  processAndSettle,
  STORE_LOOK_MS,
} from '@onceward/core/adapter'
import type { FetchedBatch } from './clients/kafkajs.ts'
import type { PartitionBatches } from './clients/partition-batches.ts'
import { type InHand, nameOf } from './offsets.ts'
import type { Settings } from './options.ts'
import { createSettleContext, type SettleAnswer, type SettleContext, settle } from './settle.ts'

export interface DispatcherOptions {
  readonly port: GuardPort
  readonly settings: Settings
  readonly batches: Pick<
    PartitionBatches,
    'open' | 'isHeld' | 'suspectUntilMs' | 'commit' | 'met' | 'inFlight' | 'clear' | 'ended'
  >
  /** The settlement is stored. */
  readonly onKnown: (settlement: Settlement) => void
}

/** Decides which of the fetched records run now, and carries out their settlements. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #context: SettleContext
  /** All slots that one turn of the event loop frees are filled by one call of the guard. */
  readonly #pumpSoon: () => void = oncePerTurn(() => this.pump())
  readonly #isBatch: boolean
  #calls = 0
  /** The partition whose records ran last. */
  #last: string | undefined
  #isProbing = false
  #wake: { readonly atMs: number; readonly cancel: () => void } | undefined

  constructor(options: DispatcherOptions) {
    const { port, settings } = options
    this.#options = options
    this.#isBatch = port.settings.transaction === 'batch'
    this.#context = createSettleContext(port, settings)
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
    const { open: batches, isHeld, suspectUntilMs } = this.#options.batches
    const gate = isHeld ? 'shut' : this.#gate()
    if (gate === 'shut') return
    const nowMs = this.#options.port.runtime.monotonic()
    // Partitions take turns: the one that ran last comes last.
    const next = 1 + batches.findIndex((batch) => nameOf(batch) === this.#last)
    let room = gate === 'probe' ? 1 : this.#room(batches)
    for (const batch of [...batches.slice(next), ...batches.slice(0, next)]) {
      while (room > 0 && this.#dispatch(batch, room)) {
        this.#last = nameOf(batch)
        if (gate === 'probe') {
          this.#isProbing = true
          return
        }
        room = this.#room(batches)
      }
    }
    // Records behind a suspect one that runs long may start when the time of suspicion is over.
    const trustedMs = suspectUntilMs > nowMs ? suspectUntilMs : Number.POSITIVE_INFINITY
    const dueMs = Math.min(trustedMs, ...batches.map(({ progress }) => progress.nextDueMs(nowMs)))
    if (Number.isFinite(dueMs)) this.#wakeAt(dueMs)
  }

  /** While the store is down, one record at a time probes whether it is back. */
  #gate(): 'open' | 'probe' | 'shut' {
    const { port } = this.#options
    const availability = port.availability()
    if (availability.kind === 'available') return 'open'
    const waitMs = availability.retryAt - port.runtime.now()
    if (waitMs <= 0 && !this.#isProbing) return 'probe'
    this.#wakeAt(port.runtime.monotonic() + Math.max(1, Math.min(waitMs, STORE_LOOK_MS)))
    return 'shut'
  }

  /** Records for the free slots, and no more: the next ones are in memory, so a slot that gets free is filled at once. */
  #room(batches: readonly FetchedBatch[]): number {
    const { port, settings } = this.#options
    const { concurrency, lanesAreUsers } = port.settings
    const { batchSize } = settings
    if (this.#isBatch) return this.#calls < concurrency ? batchSize : 0
    let idle = concurrency
    for (const { progress } of batches) idle -= progress.busy
    if (idle <= 0) return 0
    // Only the guard knows the lanes, so a partition has one call at a time, which must keep all slots busy.
    return lanesAreUsers ? batchSize : Math.min(batchSize, idle)
  }

  #dispatch(batch: FetchedBatch, room: number): boolean {
    const { port, batches } = this.#options
    if (batch.isCommitting || batch.stop.signal.aborted) return false
    const nowMs = port.runtime.monotonic()
    const suspect = nowMs < batches.suspectUntilMs
    if (suspect && batch.progress.running > 0) return false
    const items = batch.progress.take(nowMs, room)
    if (items.length === 0) return false
    void this.#run(batch, items, suspect)
    return true
  }

  async #run(batch: FetchedBatch, items: readonly InHand[], suspect: boolean): Promise<void> {
    const { port, onKnown } = this.#options
    if (suspect) for (const item of items) item.suspect()
    this.#calls += 1
    await processAndSettle(port, items, {
      stop: batch.stop.signal,
      abort: batch.abort.signal,
      hasDeadLetterPlace: this.#context.place.kind === 'publish',
      settle: (item, settlement) => {
        this.#isProbing = false
        // A stopped batch gives the same settlement as a closed guard. Only from other batches it means a closed guard.
        if (!(batch.stop.signal.aborted && isGuardClosed(settlement))) onKnown(settlement)
        // An outage, or a record that waits for another one, costs no attempt.
        if (settlement.kind === 'defer' && settlement.reason === 'failed') item.countFailure()
        const answer = settle(this.#context, item.record, settlement)
        return andThen(answer, (known) => this.#meet(batch, item, known))
      },
    })
    this.#calls -= 1
    if (suspect) await this.#commitFirst(batch)
    this.#pumpSoon()
  }

  /** While records are suspect, none starts before the offset of the ones before it is committed (design.md §6). */
  async #commitFirst(batch: FetchedBatch): Promise<void> {
    if (batch.isOver) return
    batch.isCommitting = true
    await this.#options.batches.commit(batch)
    batch.isCommitting = false
  }

  #meet(batch: FetchedBatch, item: InHand, answer: SettleAnswer): void {
    const nowMs = this.#options.port.runtime.monotonic()
    batch.lastKnownAtMs = nowMs
    if (answer.kind === 'settled') batch.progress.settle(item)
    else batch.progress.postpone(item, dueOf(answer, nowMs))
    this.#options.batches.met(batch)
    this.#pumpSoon()
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
