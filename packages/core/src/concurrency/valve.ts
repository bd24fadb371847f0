import { type EpochMs, toEpochMs } from '../model/brands.ts'
import { ConsumerPausedError, describeError } from '../model/errors.ts'
import type { Pause } from '../model/guard-port.ts'
import type { PauseStore } from '../model/inbox.ts'
import type { Logger } from '../model/logger.ts'
import type { Runtime } from '../model/runtime.ts'

export interface ValveOptions {
  readonly consumer: string
  readonly logger: Logger
  readonly runtime: Runtime
}

/** Callers that wait for the end of a pause look this often. */
const LOOK_MS = 1_000
/** An event that was not started comes back after this time at the latest, ms: a user's own loop receives it again and again. */
const BACK_MS = 30_000

/** The pause in force, as callers see it. */
interface Paused {
  readonly pause: Pause
  readonly retryAt: EpochMs
  readonly error: ConsumerPausedError
}

/** A pause in force. */
interface Shut {
  readonly pause: Pause
  /** On the monotonic clock. */
  readonly endsAtMs: number | undefined
  /** The store has it, so that it ends when the store says so. */
  isStored: boolean
}

/**
 * The valve of one guard: open, shut, or half open after a pause of a handler has ended by itself, when one call asks
 * whether it is over.
 */
export class PauseValve {
  readonly #options: ValveOptions
  readonly #listeners = new Set<() => void>()
  isClosed = false
  #isOpen = true
  #shut: Shut | undefined
  #isHalfOpen = false
  #isProbing = false
  /** The store has not been told yet that the pause is over. */
  #isResuming = false
  #controller = new AbortController()
  #store: PauseStore | undefined
  #lookedAtMs = Number.NEGATIVE_INFINITY
  /** Calls of the store, one after the other: a look must not undo a pause that is being written. */
  #calls: Promise<void> = Promise.resolve()

  constructor(options: ValveOptions) {
    this.#options = options
  }

  get isOpen(): boolean {
    if (!this.#isOpen) this.#expire()
    return this.#isOpen
  }

  get signal(): AbortSignal {
    if (!this.#isOpen) this.#expire()
    return this.#controller.signal
  }

  state(): Paused | undefined {
    // Asked for each event.
    if (this.#isOpen) return undefined
    const shut = this.isOpen ? undefined : this.#shut
    if (shut === undefined) return undefined
    const { runtime } = this.#options
    const leftMs = (shut.endsAtMs ?? Number.POSITIVE_INFINITY) - runtime.monotonic()
    const pausedMs = Math.min(LOOK_MS, Math.max(1, leftMs))
    const waitMs = this.#isHalfOpen ? (this.#isProbing ? LOOK_MS : 0) : pausedMs
    return { pause: shut.pause, retryAt: toEpochMs(runtime.now() + waitMs), error: this.error() }
  }

  enter(): 'open' | 'probe' | 'shut' {
    if (this.#isOpen || this.isOpen) return 'open'
    if (!this.#isHalfOpen || this.#isProbing) return 'shut'
    this.#isProbing = true
    return 'probe'
  }

  probed(isOver: boolean): void {
    this.#isProbing = false
    // The probe itself may have paused the consumer again.
    if (isOver && this.#isHalfOpen) this.#open()
  }

  error(): ConsumerPausedError {
    const { consumer, runtime } = this.#options
    const { endsAtMs, pause } = this.#shut ?? {}
    const { by, source = 'operator', why } = pause ?? {}
    const leftMs = endsAtMs === undefined ? undefined : endsAtMs - runtime.monotonic()
    const until =
      leftMs === undefined ? '' : ` until ${new Date(runtime.now() + leftMs).toISOString()}`
    const who = by ?? { operator: undefined, handler: 'its handler', guard: 'its guard' }[source]
    const subject = `The consumer ${consumer} is paused${who === undefined ? '' : ` by ${who}`}${until}`
    return new ConsumerPausedError(
      `${subject}${why === undefined ? '' : `: ${why}`}. Nothing is lost. \`npx onceward resume ${consumer}\` ends the pause.`,
    )
  }

  delayMs(): number {
    const { endsAtMs } = this.#shut ?? {}
    if (this.#isOpen) return 0
    if (endsAtMs === undefined) return BACK_MS
    return Math.min(BACK_MS, Math.max(LOOK_MS, endsAtMs - this.#options.runtime.monotonic()))
  }

  pause(pause: Pause): void {
    if (this.isClosed) return
    this.#close({ pause, endsAtMs: this.#endOf(pause), isStored: false })
    void this.#write()
  }

  resume(): void {
    const store = this.#store
    this.#open()
    if (store === undefined) return
    this.#isResuming = true
    void this.#call('ended', () => store.end()).then(() => {
      this.#isResuming = false
    })
  }

  onShut(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async attach(store: PauseStore): Promise<void> {
    if (this.#store !== undefined) return
    this.#adopt(await store.read())
    this.#lookedAtMs = this.#options.runtime.monotonic()
    this.#store = store
    void this.#write()
  }

  look(maxAgeMs = 0): Promise<void> {
    const store = this.#store
    const nowMs = this.#options.runtime.monotonic()
    if (store === undefined || this.isClosed || nowMs - this.#lookedAtMs < maxAgeMs) {
      return Promise.resolve()
    }
    this.#lookedAtMs = nowMs
    if (this.#shut?.isStored === false) return this.#write()
    return this.#call('read', async () => this.#adopt(await store.read()))
  }

  close(): void {
    this.isClosed = true
    this.#open()
  }

  #endOf({ forMs }: Pause): number | undefined {
    return forMs === undefined ? undefined : this.#options.runtime.monotonic() + forMs
  }

  /** The store's word counts, except about a pause that it has not been told yet. */
  #adopt(pause: Pause | undefined): void {
    if (this.isClosed || this.#isResuming || this.#shut?.isStored === false) return
    if (pause !== undefined) this.#close({ pause, endsAtMs: this.#endOf(pause), isStored: true })
    else if (!(this.isOpen || this.#isHalfOpen || this.#isEnding())) this.#open()
  }

  /** A pause of a handler ends with a probe, and the clock of the store may be ahead. */
  #isEnding(): boolean {
    const { endsAtMs, pause } = this.#shut ?? {}
    if (pause?.source !== 'handler' || endsAtMs === undefined) return false
    return endsAtMs - this.#options.runtime.monotonic() < LOOK_MS
  }

  #write(): Promise<void> {
    const [store, shut] = [this.#store, this.#shut]
    if (store === undefined || shut === undefined || shut.isStored) return Promise.resolve()
    const { pause } = shut
    return this.#call('stored', async () => {
      if (this.#shut !== shut) return
      const nowMs = this.#options.runtime.monotonic()
      const forMs = shut.endsAtMs === undefined ? undefined : Math.max(0, shut.endsAtMs - nowMs)
      await store.write({ ...pause, forMs })
      shut.isStored = true
    })
  }

  #call(what: 'read' | 'stored' | 'ended', call: () => Promise<void>): Promise<void> {
    this.#calls = this.#calls.then(call).catch((error: unknown) => {
      this.#options.logger.debug(
        { consumer: this.#options.consumer, err: describeError(error) },
        `the pause of the consumer could not be ${what} and this is tried again`,
      )
    })
    return this.#calls
  }

  #close(shut: Shut): void {
    const { consumer, logger } = this.#options
    const before = this.#shut
    const wasRunning = this.#isOpen || this.#isHalfOpen
    // A pause of this process that is shorter than the one in force changes nothing.
    if (!(wasRunning || shut.isStored || before === undefined || isLonger(shut, before))) return
    this.#shut = shut
    this.#isOpen = false
    this.#isHalfOpen = false
    if (!wasRunning) return
    const { by, forMs, source, why } = shut.pause
    logger.warn(
      { consumer, source, by, why, forMs },
      'the consumer is paused: it starts no events until it is resumed',
    )
    this.#controller.abort()
    for (const listener of this.#listeners) listener()
  }

  #open(): void {
    const wasOpen = this.#isOpen
    this.#isOpen = true
    this.#shut = undefined
    this.#isHalfOpen = false
    if (wasOpen) return
    this.#renew()
    const { consumer, logger } = this.#options
    if (!this.isClosed) logger.info({ consumer }, 'the pause of the consumer is over')
  }

  #expire(): void {
    const endsAtMs = this.#shut?.endsAtMs
    if (this.#isHalfOpen || endsAtMs === undefined) return
    if (this.#options.runtime.monotonic() < endsAtMs) return
    if (this.#shut?.pause.source === 'handler') {
      this.#isHalfOpen = true
      this.#isProbing = false
      this.#renew()
    } else this.#open()
  }

  #renew(): void {
    if (this.#controller.signal.aborted) this.#controller = new AbortController()
  }
}

const isLonger = ({ endsAtMs }: Shut, { endsAtMs: beforeMs }: Shut): boolean =>
  beforeMs !== undefined && (endsAtMs === undefined || endsAtMs > beforeMs)
