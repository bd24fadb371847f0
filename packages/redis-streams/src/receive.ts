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
import { Claims } from './pending.ts'

export interface ReceiverOptions {
  readonly port: GuardPort
  readonly api: Pick<StreamApi, 'readable' | 'read' | 'claim' | 'neighbours' | 'removeConsumers'>
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
 * parked and abandoned ones by a look every second, and at once as long as there are more. An error of Redis is retried after a pause. While the store is down,
 * one entry at a time asks whether it is back.
 */
export class Receiver {
  readonly #options: ReceiverOptions
  readonly #recovery: Recovery<BrokerErrorKind>
  readonly #claims: Claims
  readonly #reading = new Map<readonly string[], Promise<void>>()
  /** Entries that the receives under way may bring. */
  #reserved = 0
  /** Streams whose last receive brought entries. */
  readonly #busy = new Set<readonly string[]>()
  /** The streams that the next receive and the next look begin with. */
  #turn = 0
  #lookTurn = 0
  #look: Promise<void> | undefined
  /** The last look took all that it had room for. */
  #isBacklog = false
  /** The last room went to a look, and not to a receive. */
  #wasLook = false
  #lookAtMs = 0
  #namesAtMs = 0
  #isGroupMissing = false

  constructor(options: ReceiverOptions) {
    const { port, settings } = options
    this.#options = options
    const { runtime, logger } = port
    this.#claims = new Claims({ api: options.api, settings, runtime, logger })
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
    if (wasPaused) this.#options.dispatcher.resume()
    this.#lookIfDue()
    this.#readAll()
  }

  /** Room that no receive under way may fill. */
  get #free(): number {
    return this.#options.dispatcher.room - this.#reserved
  }

  /**
   * A receive of a quiet stream keeps what it reserves for a second. So beside other streams it asks for one entry and
   * reserves nothing, and beside other streams or a backlog of looks a receive takes half of the room at most.
   */
  #readAll(): void {
    const { api, dispatcher, settings } = this.#options
    const { readable } = api
    const isShared = readable.length > 1 || this.#isBacklog
    for (const streams of fromTurn(readable, this.#turn)) {
      if (this.#reading.has(streams)) continue
      const room = this.#free
      if (room < dispatcher.worthwhile) return
      const max = Math.min(isShared ? Math.ceil(room / 2) : room, settings.batchSize)
      const isProbe = readable.length > 1 && !this.#busy.has(streams)
      this.#read(streams, isProbe ? 1 : Math.max(1, Math.floor(max / streams.length)), isProbe)
      this.#turn = readable.indexOf(streams) + 1
    }
  }

  /** Held entries ask the store by themselves. */
  #probe(): void {
    const { api, dispatcher } = this.#options
    const [streams] = api.readable
    const isIdle = dispatcher.inFlight === 0 && this.#reading.size === 0
    if (isIdle && streams !== undefined) this.#read(streams, 1, false)
    else this.#recovery.pause(STORE_LOOK_MS / 10)
  }

  #read(streams: readonly string[], count: number, isProbe: boolean): void {
    const reserved = isProbe ? 0 : count * streams.length
    this.#reserved += reserved
    this.#wasLook = false
    const reading = this.#receive(streams, count, isProbe).then(() => {
      this.#reserved -= reserved
      this.#reading.delete(streams)
      this.pump()
    })
    this.#reading.set(streams, reading)
  }

  async #receive(streams: readonly string[], count: number, isProbe: boolean): Promise<void> {
    const { api, accept, dispatcher, port } = this.#options
    const startedAtMs = port.runtime.monotonic()
    try {
      if (this.#isGroupMissing) await this.#options.restore()
      this.#isGroupMissing = false
      const entries = await api.read(streams, { count, blockMs: BLOCK_MS })
      const tookMs = port.runtime.monotonic() - startedAtMs
      // One that brought less has waited for entries, so its time says nothing about Redis.
      if (entries.length >= count && !isProbe) dispatcher.noteReceive(tookMs)
      if (entries.length > 0) this.#busy.add(streams)
      else this.#busy.delete(streams)
      this.#answered()
      this.#take(accept(entries.map((entry) => ({ ...entry, deliveryCount: 1 }))))
    } catch (error) {
      this.#failed(error)
    }
  }

  #lookIfDue(): void {
    const { runtime } = this.#options.port
    if (this.#look !== undefined || runtime.monotonic() < this.#lookAtMs || !this.#mayLook()) return
    this.#wasLook = true
    this.#lookAtMs = runtime.monotonic() + LOOK_MS * (0.8 + 0.4 * runtime.random())
    this.#look = this.#lookAround().then(() => {
      this.#look = undefined
      this.pump()
    })
  }

  /** Looks that follow each other at once and receives take turns. */
  #mayLook(): boolean {
    const { api, dispatcher } = this.#options
    if (dispatcher.room < 1) return false
    if (!this.#isBacklog || this.#reading.size === api.readable.length) return true
    return !this.#wasLook && this.#free >= dispatcher.worthwhile
  }

  async #lookAround(): Promise<void> {
    const { settings } = this.#options
    try {
      let isBacklog = false
      this.#lookTurn += 1
      for (const stream of fromTurn(settings.streams, this.#lookTurn)) {
        if (await this.#claim(stream)) isBacklog = true
      }
      this.#isBacklog = isBacklog
      await this.#removeNames()
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Whether it took all that it had room for. */
  async #claim(stream: string): Promise<boolean> {
    const { accept, dispatcher, settings } = this.#options
    if (dispatcher.room < 1) {
      // There is less room than streams: the next ones are first as soon as there is more.
      this.#lookAtMs = 0
      return true
    }
    // Receives that wait for entries may have reserved all room.
    const room = Math.max(1, this.#isBacklog ? this.#free : Math.ceil(this.#free / 2))
    const count = Math.min(room, settings.batchSize)
    this.#reserved += count
    try {
      const { entries, isMore } = await this.#claims.take(stream, count)
      this.#answered()
      this.#take(accept(entries))
      if (isMore) this.#lookAtMs = 0
      return entries.length >= count
    } finally {
      this.#reserved -= count
    }
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

/** All of them, beginning with one after the other. */
function fromTurn<Each>(all: readonly Each[], turn: number): readonly Each[] {
  const first = turn % all.length
  return [...all.slice(first), ...all.slice(0, first)]
}
