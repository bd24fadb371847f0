import type { DependencyOutage, Destination } from '@onceward/core'
import { describeError, messageOf, pauseMs } from '@onceward/core/adapter'
import { createBreaker } from '@onceward/core/ports'
import { type OpenedMessages, openedMessages } from './opened-messages.ts'
import type { RelaySettings } from './options.ts'
import { type Outcome, Publisher } from './publish.ts'
import type { RelayTables, StoredMessage } from './relay-store.ts'
import { type Verdict, Verdicts } from './verdicts.ts'

/** Between two looks of which the first found nothing, ms. */
const POLLING = { baseMs: 100, maxMs: 1_000 }
/** Keys that wait are counted this often, ms. */
const COUNT_MS = 2_000
const LONGEST_ERROR = 500
/** After a look of fewer messages the next one waits a little, so that it finds more. */
const SMALL_LOOK = 16
/** Part of the time that may be spent on what waits behind a refused message. */
const COUNT_SHARE = 10

const LOOKS_AGAIN = 'the relay cannot read or change its messages and tries again'

const CLOSED =
  'messages of the outbox cannot be opened and wait with those behind them: give the relay the `seal` of their guard, with all its keys'

/** What a relay may publish now. */
export interface Lease {
  readonly buckets: () => readonly number[]
  readonly mayGoOn: () => boolean
}

export interface LoopParts {
  readonly name: string
  readonly destination: Destination
  readonly settings: RelaySettings
  readonly store: RelayTables
  readonly lease: Lease
}

/** One destination of a relay. It has its own calls and breaker, so one that hangs keeps no other from its messages. */
export class DestinationLoop {
  lastProgressAt: Date | undefined
  refused = 0
  published = 0
  readonly #parts: LoopParts
  readonly #breaker: ReturnType<typeof createBreaker>
  readonly #publisher: Publisher
  readonly #verdicts = new Verdicts()
  /** What calls that ended after their look have left to be recorded. */
  #late: Promise<void> = Promise.resolve()
  #isStopped = false
  #ended: Promise<void> = Promise.resolve()
  #wake: (() => void) | undefined
  #isWoken = false
  #empty = 0
  #waiting: { readonly keys: number; readonly error: string } | undefined
  #countAtMs = 0
  #lookError: unknown

  constructor(parts: LoopParts) {
    this.#parts = parts
    const { callMs, concurrency: slots, runtime } = parts.settings
    this.#breaker = createBreaker(runtime)
    const { destination } = parts
    const onLate = (outcomes: readonly Outcome[]): Promise<void> => this.#recordLate(outcomes)
    this.#publisher = new Publisher({ destination, runtime, slots, callMs, onLate })
  }

  start(): void {
    this.#ended = this.#run()
  }

  /** Resolves when no call runs any more. */
  stop(): Promise<void> {
    this.#isStopped = true
    this.wake()
    return this.#ended
  }

  wake(): void {
    this.#isWoken = true
    this.#wake?.()
  }

  get inFlight(): number {
    return this.#publisher.inFlight
  }

  get name(): string {
    return this.#parts.name
  }

  outage(): DependencyOutage | undefined {
    const state = this.#breaker.state()
    if (state === undefined) return undefined
    return { dependency: 'broker', reason: `${this.#parts.name}: ${messageOf(state.error)}` }
  }

  notice(): string | undefined {
    if (this.#lookError !== undefined) return `${this.#parts.name}: ${messageOf(this.#lookError)}`
    const { error, keys } = this.#waiting ?? { error: '', keys: 0 }
    return keys === 0 ? undefined : `${this.#parts.name}: ${keys} messages wait, refused: ${error}`
  }

  async #run(): Promise<void> {
    const { logger } = this.#parts.settings
    while (!this.#isStopped) {
      let pause: number
      try {
        pause = await this.#look()
        this.#lookError = undefined
      } catch (error) {
        pause = this.#idleMs()
        const fields = { err: error, destination: this.#parts.name }
        if (this.#lookError === undefined) logger.warn(fields, LOOKS_AGAIN)
        this.#lookError = error
      }
      if (pause > 0) await this.#sleep(pause)
    }
    await this.#publisher.ended()
    await this.#late
  }

  /** Answers how long to wait for the next look, ms. */
  async #look(): Promise<number> {
    const { lease, name, settings, store } = this.#parts
    this.#isWoken = false
    // A call that ends wakes it.
    if (this.#publisher.isFull) return POLLING.maxMs
    const go = this.#breaker.admit()
    // What failed may be the message's fault: others may leave, and so tell.
    const suspect = go === 'go' ? undefined : this.#verdicts.failsAlone
    if (go !== 'go' && suspect === undefined) return go
    const buckets = lease.buckets()
    if (buckets.length === 0) return this.#idleMs()
    await this.#count(buckets)
    const busy = [...this.#publisher.busy, ...(suspect === undefined ? [] : [suspect.position])]
    const found = await store.read(name, buckets, new Set(busy))
    const messages = found.filter(
      (message) => !this.#publisher.isBusy(message) && !isBehind(message, suspect),
    )
    if (messages.length === 0) {
      if (go === 'go') this.#breaker.currentProbe()()
      return this.#idleMs()
    }
    this.#empty = 0
    const { closed, open } = await openedMessages(settings, messages)
    if (closed.length > 0) await this.#hold(closed)
    if (open.length === 0) {
      if (go === 'go') this.#breaker.currentProbe()()
      return this.#idleMs()
    }
    const mayGoOn = (): boolean => !this.#isStopped && lease.mayGoOn()
    const isProbe = this.#breaker.state() !== undefined
    await this.#record(await this.#publisher.publish(open, { mayGoOn, isProbe }))
    return found.length < SMALL_LOOK ? POLLING.baseMs / 10 : 0
  }

  #idleMs(): number {
    this.#empty += 1
    return Math.min(
      POLLING.maxMs,
      pauseMs(POLLING, this.#empty, this.#parts.settings.runtime.random),
    )
  }

  async #count(buckets: readonly number[]): Promise<void> {
    const { name, settings, store } = this.#parts
    const nowMs = settings.runtime.monotonic()
    if (nowMs < this.#countAtMs) return
    const isMore = await store.free(name, buckets)
    this.#waiting = await store.waiting(name, buckets)
    const endedAtMs = settings.runtime.monotonic()
    const nextMs = isMore ? 0 : Math.max(COUNT_MS, COUNT_SHARE * (endedAtMs - nowMs))
    this.#countAtMs = endedAtMs + nextMs
  }

  async #record(outcomes: readonly Outcome[]): Promise<void> {
    if (outcomes.length === 0) return
    const { name, settings, store } = this.#parts
    const { logger, runtime } = settings
    const { confirmed, counted, failure } = this.#verdicts.of(outcomes)
    if (failure === undefined) this.#breaker.succeeded()
    else {
      this.#breaker.failed(failure.error)
      logger.warn(
        { destination: name, err: failure.error },
        'a destination of the outbox is down; its messages wait',
      )
    }
    if (confirmed.length > 0) {
      this.lastProgressAt = new Date(runtime.now())
      await store.remove(name, confirmed)
      // What waited behind it is free.
      if (confirmed.some(({ attempt }) => attempt > 0)) this.#countAtMs = 0
      this.published += confirmed.length
    }
    if (counted.length > 0) await this.#fail(counted)
  }

  #recordLate(outcomes: readonly Outcome[]): Promise<void> {
    const recorded = this.#record(outcomes).catch((error: unknown) => {
      const fields = { err: error, destination: this.#parts.name }
      this.#parts.settings.logger.warn(fields, LOOKS_AGAIN)
    })
    this.#late = Promise.all([this.#late, recorded]).then(() => this.wake())
    return recorded
  }

  /** Nothing is known against the destination, and no attempt of theirs is counted. */
  async #hold(closed: OpenedMessages['closed']): Promise<void> {
    const { name, settings, store } = this.#parts
    const held = closed.map(({ error, message }) => ({
      message,
      delayMs: pauseMs(settings, 0, settings.runtime.random),
      error: error.message.slice(0, LONGEST_ERROR).replaceAll('\0', ''),
      isHeld: true as const,
    }))
    await store.fail(name, held, settings)
    const { keys = 0 } = this.#waiting ?? {}
    this.#countAtMs = 0
    const fields = { destination: name, messages: closed.length, err: closed[0]?.error }
    const { logger } = settings
    // Each of their turns comes again after a second or so.
    if (keys === 0) logger.error(fields, CLOSED)
    else logger.debug(fields, CLOSED)
  }

  /** In one statement: a thousand customers may be away at once. */
  async #fail(counted: Verdict['counted']): Promise<void> {
    const { name, settings, store } = this.#parts
    const { logger, runtime } = settings
    this.refused += counted.length
    if (this.#waiting?.keys === 0) this.#countAtMs = 0
    const failures = counted.map(({ error, message }) => ({
      message,
      delayMs: pauseMs(settings, message.attempt, runtime.random),
      error: describeError(error).message.slice(0, LONGEST_ERROR).replaceAll('\0', ''),
    }))
    const dead = await store.fail(name, failures, settings)
    if (dead.size > 0) this.#countAtMs = 0
    for (const { error, message } of counted) {
      const { attempt, id, position } = message
      const fields = { destination: name, messageId: id, attempt: attempt + 1, err: error }
      if (dead.has(position)) logger.error(fields, 'a message of the outbox is dead')
      else logger.warn(fields, 'a message of the outbox was refused; its key waits')
    }
  }

  #sleep(ms: number): Promise<void> {
    if (this.#isWoken || this.#isStopped) return Promise.resolve()
    return new Promise((resolve) => {
      const end = (): void => {
        this.#wake = undefined
        cancel()
        resolve()
      }
      const cancel = this.#parts.settings.runtime.setTimer(end, ms)
      this.#wake = end
    })
  }
}

const isBehind = (message: StoredMessage, other: StoredMessage | undefined): boolean =>
  other !== undefined &&
  (message.position === other.position ||
    (message.lane !== undefined && message.lane === other.lane))
