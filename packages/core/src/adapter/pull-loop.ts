import { DeliveryFlow, type FlowOptions, type Received } from '../flow/delivery-flow.ts'
import { PullPrefetch } from '../flow/prefetch.ts'
import type { GuardSettings } from '../model/guard-port.ts'
import { isFatal } from './classified-error.ts'
import type { Dispatching, LoopSignals, Receiving } from './consumption.ts'
import type { Outage } from './health.ts'
import { Recovery, type RecoveryOptions } from './recovery.ts'

/** One call that asks the broker for messages. */
export interface Receive<Each> {
  /** Room that is kept for what it may bring. */
  readonly reserved: number
  /** If it brings as many, its time tells how long a receive takes; one that brings less has waited for messages. */
  readonly full?: number
  readonly fetch: () => Promise<readonly Each[]>
}

/** Where a source receives to. */
export interface ReceiveRoom<Each> {
  readonly outage: Outage | undefined
  /** Messages that may be in hand. */
  readonly capacity: number
  /** How many more messages may be in hand. */
  readonly room: number
  /** Room that no receive under way may fill. */
  readonly free: number
  /** The least room that is worth a receive: prefetched messages keep the handlers busy meanwhile. */
  readonly worthwhile: number
  /** Receives under way. */
  readonly receiving: number
  /**
   * Makes a receive and takes what it brings. Never rejects: a failed one is told, and tried again after a pause. Once the
   * loop is stopped, all fail.
   */
  receive(receive: Receive<Each>): Promise<'answered' | 'failed'>
  /** There may be reason to fill. */
  pump(): void
  /** Fills nothing for this time. */
  pause(delayMs: number): void
}

/** How messages come from a broker that is asked for them. */
export interface PullSource<Each> {
  /** Most messages of one receive. */
  readonly most: number
  /** Begins the receives that there is reason to make. Called whenever something has changed. */
  fill(room: ReceiveRoom<Each>): void
  /** Begins a receive of one message, which asks the store whether it is back. */
  fillOne(room: ReceiveRoom<Each>): void
  /** A receive failed. */
  failed(error: unknown): void
}

export interface PullLoopOptions<Each extends Received, Kind extends string>
  extends FlowOptions<Each>,
    Pick<RecoveryOptions<Kind>, 'fields' | 'classifyError' | 'backoff'> {
  readonly signals: LoopSignals
  readonly source: PullSource<Each>
  /** Must have succeeded once before anything is received. */
  readonly check: () => Promise<void>
}

/** Messages beyond the slots, for a guard with few of them. */
const LEAST_AHEAD = 10

/**
 * Receives as many messages as can start soon, until it is stopped. An error of the broker is retried after a pause. While
 * the store is down, one message at a time asks whether it is back: first those in hand, because each receive may count.
 */
export class PullLoop<Each extends Received, Kind extends string>
  implements Receiving, Dispatching, ReceiveRoom<Each>
{
  readonly #options: PullLoopOptions<Each, Kind>
  readonly #flow: DeliveryFlow<Each>
  readonly #recovery: Recovery<Kind>
  readonly #prefetch: PullPrefetch
  readonly #receives = new Set<Promise<unknown>>()
  /** Messages that the receives under way may bring. */
  #reserved = 0

  constructor(options: PullLoopOptions<Each, Kind>) {
    const { port, settings, signals, fields, classifyError, backoff, check } = options
    this.#options = options
    this.#prefetch = prefetchOf(port.settings, settings.batchSize)
    this.#recovery = new Recovery<Kind>({
      ...{ port, fields, classifyError, backoff, check, onEnd: signals.onEnd },
      onRetry: () => this.pump(),
      onPaused: () => this.#flow.clear(),
    })
    this.#flow = new DeliveryFlow(options, {
      hasRoom: () => this.room >= this.worthwhile,
      onRun: this.#prefetch.note.bind(this.#prefetch),
      onKnown: (settlement) => this.#recovery.known(settlement),
      onSettled: () => this.#recovery.progressed(),
      onRefilled: () => this.pump(),
    })
  }

  get outage(): Outage | undefined {
    return this.#recovery.outage
  }

  get lastProgressAt(): Date | undefined {
    return this.#recovery.lastProgressAt
  }

  get inFlight(): number {
    return this.#flow.inFlight
  }

  get capacity(): number {
    return this.#prefetch.capacity
  }

  get room(): number {
    const { undecided, settling, waiting } = this.#flow
    // Settling waits for the broker, not for a handler. The bound matters only if the broker hangs.
    if (settling > 2 * this.capacity + 50) return 0
    return this.capacity - undecided - waiting
  }

  get free(): number {
    return this.room - this.#reserved
  }

  get worthwhile(): number {
    return Math.min(this.#options.source.most, this.#prefetch.worthwhile)
  }

  get receiving(): number {
    return this.#receives.size
  }

  /** @throws {@link ConfigurationError}; any other error is retried. */
  start(): Promise<void> {
    return this.#recovery.start()
  }

  /**
   * Makes no more receives. Those under way end by themselves, and what they bring is given back: a broker may answer a
   * receive that was aborted, and hide those messages (trap B2).
   */
  stop(): void {
    this.#recovery.stop()
    for (const receive of this.#receives) this.#flow.track(receive)
  }

  clear(): void {
    this.#flow.clear()
  }

  /** Drops messages that other consumers have now, so they must not start here. */
  drop(isMeant: (each: Each) => boolean): void {
    if (this.#flow.takeBack(isMeant).length === 0) return
    // One of them may have been about to ask the store.
    this.#recovery.store.answered()
    this.pump()
  }

  ended(): Promise<void> {
    return this.#flow.ended()
  }

  /** Receives if there is reason to. */
  pump(): void {
    if (!this.#recovery.mayReceive()) return
    const wasPaused = this.outage?.state === 'paused'
    const gate = this.#recovery.look()
    if (gate === 'probe') this.#probe()
    if (gate !== 'open') return
    if (wasPaused || this.#options.isLeftWhenDue) this.#flow.resume()
    this.#options.source.fill(this)
  }

  pause(delayMs: number): void {
    this.#recovery.pause(delayMs)
  }

  receive(receive: Receive<Each>): Promise<'answered' | 'failed'> {
    if (this.#recovery.isStopped) return Promise.resolve('failed')
    const receiving = this.#receive(receive).then((answer) => {
      this.#receives.delete(receiving)
      this.pump()
      return answer
    })
    this.#receives.add(receiving)
    return receiving
  }

  /** A message that is being settled may be in hand again soon. */
  #probe(): void {
    if (this.#flow.probe()) this.#recovery.store.probing()
    else if (this.receiving + this.#flow.settling === 0) this.#options.source.fillOne(this)
  }

  async #receive({ reserved, full, fetch }: Receive<Each>): Promise<'answered' | 'failed'> {
    const { runtime } = this.#options.port
    const startedAtMs = runtime.monotonic()
    this.#reserved += reserved
    try {
      let received: readonly Each[]
      try {
        received = await fetch()
      } finally {
        this.#reserved -= reserved
      }
      const tookMs = runtime.monotonic() - startedAtMs
      if (full !== undefined && received.length >= full) this.#prefetch.noteReceive(tookMs)
      this.#recovery.progressed()
      this.#recovery.succeeded()
      if (this.outage?.state === 'recovering') this.#recovery.end()
      this.#take(received)
      return 'answered'
    } catch (error) {
      this.#failed(error)
      return 'failed'
    }
  }

  #take(received: readonly Each[]): void {
    if (received.length === 0) return
    if (this.#recovery.isStopped) {
      this.#flow.refuse(received)
      return
    }
    const { start, wait, back } = this.#recovery.store.admit(received)
    if (start.length > 0) this.#flow.take(start)
    if (wait.length > 0) this.#flow.wait(wait)
    if (back.length > 0) this.#flow.refuse(back)
  }

  #failed(error: unknown): void {
    this.#options.source.failed(error)
    if (isFatal(error)) this.#recovery.endOn(error)
    // Several receives that fail together are one failure.
    if (!(this.#recovery.isStopped || this.#recovery.isPausing)) this.#recovery.failed(error)
  }
}

function prefetchOf(
  { concurrency: handlers, inHand = handlers, transaction, waitsInHand }: GuardSettings,
  batchSize: number,
): PullPrefetch {
  const concurrency = waitsInHand ? inHand : handlers
  return new PullPrefetch(
    transaction === 'batch'
      ? { slots: concurrency * batchSize, mostAhead: batchSize, chunk: batchSize }
      : { slots: concurrency, mostAhead: Math.max(concurrency, LEAST_AHEAD) },
  )
}
