import type { Publish, Settlement } from '@onceward/core'
import { type GuardPort, Prefetch, processAndSettle } from '@onceward/core/adapter'
import type { FetchedBatch } from './clients/kafkajs.ts'
import { createPublisher } from './dead-letter.ts'
import { type InHand, nameOf } from './offsets.ts'
import type { Settings } from './options.ts'
import { type Fate, type SettleContext, settle } from './settle.ts'

/** The availability of the store is a local answer, looked at this often while it is down. */
const LOOK_MS = 1_000

export interface HandoverOptions {
  readonly port: GuardPort
  readonly settings: Settings
  /** Batches with records to run, in the order of their turn. */
  readonly batches: () => readonly FetchedBatch[]
  /** Whether records may have been begun before: soon after an assignment. */
  readonly isSuspect: () => boolean
  /** The settlement is stored. */
  readonly onKnown: (settlement: Settlement) => void
  /** Commits how far the batch has come. Never rejects. */
  readonly commit: (batch: FetchedBatch) => Promise<unknown>
  /** Nothing of it runs any more, and nothing will. */
  readonly onOver: (batch: FetchedBatch) => void
}

/** Between records in hand and the guard: which run now, and what becomes of them. */
export class Handover {
  /** Nothing is started while it is set. */
  isHeld = false
  readonly #options: HandoverOptions
  readonly #context: SettleContext
  readonly #publish: Publish | undefined
  readonly #registered = new Map<string, () => void>()
  readonly #pace: Prefetch
  readonly #isBatch: boolean
  #calls = 0
  #running = 0
  /** The partition whose records were handed over last. */
  #last: string | undefined
  #isProbing = false
  #isRefilling = false
  #wake: { readonly atMs: number; readonly cancel: () => void } | undefined

  constructor(options: HandoverOptions) {
    const { port, settings } = options
    const { runtime, logger } = port
    const { concurrency, transaction } = port.settings
    const { batchSize, deadLetter } = settings
    this.#options = options
    this.#isBatch = transaction === 'batch'
    this.#pace = new Prefetch(concurrency, batchSize)
    const publish = deadLetter && createPublisher(deadLetter.producer, deadLetter.topic)
    this.#publish = publish
    const place = publish && ({ kind: 'topic', publish } as const)
    this.#context = { port, runtime, logger, place: place ?? { kind: 'record' } }
  }

  /** Lets the guard's poller publish dead letters that no delivery brings back. */
  registerPublisher(topics: Iterable<string>): void {
    const publish = this.#publish
    if (publish === undefined) return
    for (const queue of topics) {
      if (this.#registered.has(queue)) continue
      const source = { broker: 'kafka', queue }
      this.#registered.set(queue, this.#options.port.registerPublisher(source, publish))
    }
  }

  /** Ends what would outlive the consumer. */
  close(): void {
    this.#wake?.cancel()
    this.#wake = undefined
    for (const unregister of this.#registered.values()) unregister()
    this.#registered.clear()
  }

  /** Hands over what may run now. */
  pump(): void {
    const gate = this.isHeld ? 'shut' : this.#gate()
    if (gate === 'shut') return
    const batches = this.#options.batches()
    const nowMs = this.#options.port.runtime.monotonic()
    // Not always the same partition first: the one that had its turn comes last.
    const next = 1 + batches.findIndex((batch) => nameOf(batch) === this.#last)
    for (const batch of [...batches.slice(next), ...batches.slice(0, next)]) {
      while (this.#dispatch(batch, gate === 'probe' ? 1 : this.#room(batches))) {
        this.#last = nameOf(batch)
        if (gate !== 'probe') continue
        this.#isProbing = true
        return
      }
    }
    const dueMs = Math.min(...batches.map(({ progress }) => progress.nextDueMs(nowMs)))
    if (Number.isFinite(dueMs)) this.#wakeAt(dueMs)
  }

  /** While the store is down one record at a time finds out whether it is back. */
  #gate(): 'open' | 'probe' | 'shut' {
    const { port } = this.#options
    const availability = port.availability()
    if (availability.kind === 'available') return 'open'
    const waitMs = availability.retryAt - port.runtime.now()
    if (waitMs <= 0 && !this.#isProbing) return 'probe'
    this.#wakeAt(port.runtime.monotonic() + Math.max(1, Math.min(waitMs, LOOK_MS)))
    return 'shut'
  }

  #room(batches: readonly FetchedBatch[]): number {
    const { port, settings } = this.#options
    const { concurrency } = port.settings
    const { batchSize } = settings
    if (this.#isBatch) return this.#calls < concurrency ? batchSize : 0
    const idle = concurrency - batches.reduce((sum, { progress }) => sum + progress.busy, 0)
    const ahead = this.#pace.capacity - this.#running
    // What was handed over ahead keeps the slots busy, so that one call can be a large one.
    const isWorthwhile = ahead >= Math.max(1, this.#pace.ahead / 2)
    return Math.min(batchSize, Math.max(idle, isWorthwhile ? ahead : 0))
  }

  #dispatch(batch: FetchedBatch, room: number): boolean {
    const { port, isSuspect } = this.#options
    if (batch.isCommitting || batch.stop.signal.aborted) return false
    const suspect = isSuspect()
    if (suspect && batch.progress.running > 0) return false
    const items = batch.progress.take(port.runtime.monotonic(), room)
    if (items.length === 0) return false
    void this.#run(batch, items, suspect)
    return true
  }

  async #run(batch: FetchedBatch, items: readonly InHand[], suspect: boolean): Promise<void> {
    const { port, onKnown } = this.#options
    const startedAtMs = port.runtime.monotonic()
    for (const item of items) {
      if (suspect) item.delivery = { ...item.delivery, redelivered: true }
    }
    this.#calls += 1
    this.#running += items.length
    await processAndSettle(port, items, {
      stop: batch.stop.signal,
      abort: batch.abort.signal,
      settle: async (item, settlement) => {
        this.#isProbing = false
        this.#pace.note(port.runtime.monotonic() - startedAtMs)
        // A batch that was told to stop is not begun further; from any other this says that the guard was closed.
        if (!(batch.stop.signal.aborted && isNotBegun(settlement))) onKnown(settlement)
        this.#meet(batch, item, await settle(this.#context, item.record, settlement))
      },
    })
    this.#calls -= 1
    if (suspect) await this.#commitFirst(batch)
    this.pump()
  }

  /** Until records are trusted, none is begun before the offset has passed those before it (design.md §6). */
  async #commitFirst(batch: FetchedBatch): Promise<void> {
    if (batch.isOver) return
    batch.isCommitting = true
    await this.#options.commit(batch)
    batch.isCommitting = false
  }

  #meet(batch: FetchedBatch, item: InHand, fate: Fate): void {
    const nowMs = this.#options.port.runtime.monotonic()
    this.#running -= 1
    batch.lastKnownAtMs = nowMs
    if (fate.kind === 'settled') batch.progress.settle(item)
    else batch.progress.postpone(item, dueOf(fate, nowMs))
    if (batch.isOver) this.#options.onOver(batch)
    this.#refillSoon()
  }

  /** All slots that this turn of the event loop frees are filled by one call of the guard. */
  #refillSoon(): void {
    if (this.#isRefilling) return
    this.#isRefilling = true
    setImmediate(() => {
      this.#isRefilling = false
      this.pump()
    })
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
    this.#wake = { atMs, cancel: runtime.setTimer(wake, delayMs) }
  }
}

const isNotBegun = (settlement: Settlement): boolean =>
  settlement.kind === 'abandon' && settlement.reason === 'closing'

function dueOf(fate: Exclude<Fate, { kind: 'settled' }>, nowMs: number): number {
  if (fate.kind === 'later') return nowMs + fate.waitMs
  return fate.kind === 'left' ? Number.POSITIVE_INFINITY : nowMs
}
