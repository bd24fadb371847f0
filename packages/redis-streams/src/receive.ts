import type { Settlement } from '@onceward/core'
import {
  type ConsumptionEnd,
  type GuardPort,
  isFatal,
  type Outage,
  Recovery,
  STORE_LOOK_MS,
} from '@onceward/core/adapter'
import type { StreamApi } from './client.ts'
import type { Accept, Received } from './delivery.ts'
import type { Dispatcher } from './dispatch.ts'
import { BACKOFF, type BrokerErrorKind, classifyError } from './errors.ts'
import type { Settings } from './options.ts'

export interface ReceiverOptions {
  readonly port: GuardPort
  readonly api: Pick<StreamApi, 'readable' | 'read' | 'claim' | 'removeConsumers'>
  readonly settings: Settings
  readonly accept: Accept
  readonly dispatcher: Pick<
    Dispatcher,
    | 'inFlight'
    | 'room'
    | 'worthwhile'
    | 'noteReceive'
    | 'take'
    | 'wait'
    | 'resume'
    | 'refuse'
    | 'track'
  >
  /** Must have succeeded before the first receive. */
  readonly check: () => Promise<void>
  /** Creates groups that are gone. */
  readonly restore: () => Promise<void>
  readonly onEnd: (end: ConsumptionEnd) => void
}

/** A receive waits this long for an entry, so a drain waits at most as long for its end. */
const BLOCK_MS = 1_000
/** Entries of others, and parked ones that are due, are looked for this often. */
const LOOK_MS = 1_000
/** Names without entries are removed after an hour. */
const IDLE_NAME_MS = 3_600_000
const NAMES_MS = 600_000

/**
 * Receives as many entries as can start soon, until it is stopped: new ones by XREADGROUP on connections of its own,
 * parked and abandoned ones by a look every second. An error of Redis is retried after a pause. While the store is down,
 * one entry at a time asks whether it is back.
 */
export class Receiver {
  readonly #options: ReceiverOptions
  readonly #recovery: Recovery<BrokerErrorKind>
  readonly #reading = new Map<readonly string[], Promise<void>>()
  /** Entries that the receives under way may bring. */
  #reserved = 0
  readonly #cursors = new Map<string, string>()
  #look: Promise<void> | undefined
  #lookAtMs = 0
  #namesAtMs = 0
  #isGroupMissing = false

  constructor(options: ReceiverOptions) {
    const { port, settings } = options
    this.#options = options
    this.#recovery = new Recovery<BrokerErrorKind>({
      port,
      fields: { queue: settings.queue, group: settings.group },
      classifyError,
      backoff: BACKOFF,
      check: options.check,
      onRetry: () => this.pump(),
      onEnd: options.onEnd,
    })
  }

  get outage(): Outage | undefined {
    return this.#recovery.outage
  }

  get lastProgressAt(): Date | undefined {
    return this.#recovery.lastProgressAt
  }

  /** @throws {@link ConfigurationError}; any other error is retried. */
  start(): Promise<void> {
    return this.#recovery.start()
  }

  /** Makes no more receives. Those under way end within a second; what they bring is given back. */
  async stop(): Promise<void> {
    this.#recovery.stop()
    for (const call of [...this.#reading.values(), this.#look]) {
      if (call !== undefined) this.#options.dispatcher.track(call)
    }
  }

  /** A settlement is stored: the store has answered. */
  known(settlement: Settlement): void {
    this.#recovery.known(settlement)
  }

  progressed(): void {
    this.#recovery.progressed()
  }

  /** Receives if there is reason to. */
  pump(): void {
    if (!this.#recovery.mayReceive()) return
    const wasPaused = this.outage?.state === 'paused'
    const gate = this.#recovery.look()
    if (gate === 'probe') this.#probe()
    if (gate !== 'open') return
    const { api, dispatcher, settings } = this.#options
    if (wasPaused) dispatcher.resume()
    this.#lookIfDue()
    for (const streams of api.readable) {
      if (this.#reading.has(streams)) continue
      const room = dispatcher.room - this.#reserved
      if (room < dispatcher.worthwhile) return
      const max = Math.min(room, settings.batchSize)
      this.#read(streams, Math.max(1, Math.floor(max / streams.length)))
    }
  }

  /** Held entries ask the store by themselves. */
  #probe(): void {
    const { api, dispatcher } = this.#options
    const [streams] = api.readable
    const isIdle = dispatcher.inFlight === 0 && this.#reading.size === 0
    if (isIdle && streams !== undefined) this.#read(streams, 1)
    else this.#recovery.pause(STORE_LOOK_MS / 10)
  }

  #read(streams: readonly string[], count: number): void {
    this.#reserved += count * streams.length
    const reading = this.#receive(streams, count).then(() => {
      this.#reading.delete(streams)
      this.pump()
    })
    this.#reading.set(streams, reading)
  }

  async #receive(streams: readonly string[], count: number): Promise<void> {
    const { api, accept, dispatcher, port } = this.#options
    const startedAtMs = port.runtime.monotonic()
    try {
      if (this.#isGroupMissing) await this.#options.restore()
      this.#isGroupMissing = false
      const entries = await api.read(streams, { count, blockMs: BLOCK_MS })
      const tookMs = port.runtime.monotonic() - startedAtMs
      // One that brought less has waited for entries, so its time says nothing about Redis.
      if (entries.length >= count) dispatcher.noteReceive(tookMs)
      this.#answered()
      this.#take(accept(entries.map((entry) => ({ ...entry, deliveryCount: 1 }))))
    } catch (error) {
      this.#failed(error)
    } finally {
      this.#reserved -= count * streams.length
    }
  }

  #lookIfDue(): void {
    const { runtime } = this.#options.port
    if (this.#look !== undefined || runtime.monotonic() < this.#lookAtMs) return
    this.#lookAtMs = runtime.monotonic() + LOOK_MS * (0.8 + 0.4 * runtime.random())
    this.#look = this.#lookAround().then(() => {
      this.#look = undefined
      this.pump()
    })
  }

  async #lookAround(): Promise<void> {
    const { settings } = this.#options
    try {
      for (const stream of settings.streams) await this.#claim(stream)
      await this.#removeNames()
    } catch (error) {
      this.#failed(error)
    }
  }

  async #claim(stream: string): Promise<void> {
    const { api, accept, dispatcher, port, settings } = this.#options
    const count = Math.min(dispatcher.room - this.#reserved, settings.batchSize)
    if (count < 1 && dispatcher.room < 1) return
    const cursor = this.#cursors.get(stream) ?? '0-0'
    const claimed = await api.claim({ stream, cursor, count: Math.max(1, count) })
    this.#cursors.set(stream, claimed.cursor)
    for (const id of claimed.gone) port.logger.error({ queue: stream, id }, GONE)
    this.#answered()
    this.#take(accept(claimed.entries))
  }

  async #removeNames(): Promise<void> {
    const { api, port, settings } = this.#options
    const nowMs = port.runtime.monotonic()
    if (nowMs < this.#namesAtMs) return
    this.#namesAtMs = nowMs + NAMES_MS
    for (const stream of settings.streams) await api.removeConsumers(stream, IDLE_NAME_MS)
  }

  #answered(): void {
    this.progressed()
    this.#recovery.succeeded()
    if (this.outage?.state === 'recovering') this.#recovery.end()
  }

  #take(received: readonly Received[]): void {
    const { dispatcher } = this.#options
    if (received.length === 0) return
    if (this.#recovery.isStopped) {
      dispatcher.refuse(received)
      return
    }
    const { start, wait } = this.#recovery.store.admit(received)
    if (start.length > 0) dispatcher.take(start)
    if (wait.length > 0) dispatcher.wait(wait)
  }

  #failed(error: unknown): void {
    if (classifyError(error).kind === 'group-missing') this.#isGroupMissing = true
    if (isFatal(error)) this.#recovery.endOn(error)
    // Several calls that fail together are one failure.
    if (!(this.#recovery.isStopped || this.#recovery.isPausing)) this.#recovery.failed(error)
  }
}

const GONE =
  'an entry was deleted or trimmed before it was settled, and its event may be lost: trim less, or by XTRIM MINID of what is settled'
