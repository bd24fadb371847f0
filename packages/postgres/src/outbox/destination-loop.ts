import type { DependencyOutage, Destination } from '@onceward/core'
import { describeError, messageOf, pauseMs } from '@onceward/core/adapter'
import { createBreaker } from '@onceward/core/ports'
import type { RelaySettings } from './options.ts'
import { type Published, publish } from './publish.ts'
import { bucketRows } from './relay-sql.ts'
import type { RelayTables } from './relay-store.ts'

/** Between two looks of which the first found nothing, ms. */
const POLLING = { baseMs: 100, maxMs: 1_000 }
/** Until a message that was refused is published again, ms. */
const REFUSED = { baseMs: 1_000, maxMs: 300_000 }
/** Keys that wait are counted this often, ms. */
const COUNT_MS = 2_000
const LONGEST_ERROR = 500

const LOOKS_AGAIN = 'the relay cannot read or change its messages and tries again'

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
  inFlight = 0
  refused = 0
  published = 0
  readonly #parts: LoopParts
  readonly #breaker: ReturnType<typeof createBreaker>
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
    this.#breaker = createBreaker(parts.settings.runtime)
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
  }

  /** Answers how long to wait for the next look, ms. */
  async #look(): Promise<number> {
    const { destination, lease, name, settings, store } = this.#parts
    const { callMs, concurrency: slots, runtime } = settings
    this.#isWoken = false
    const go = this.#breaker.admit()
    if (go !== 'go') return go
    const buckets = lease.buckets()
    if (buckets.length === 0) return this.#idleMs()
    await this.#count(buckets)
    const messages = await store.read(name, buckets)
    if (messages.length === 0) {
      this.#breaker.currentProbe()()
      return this.#idleMs()
    }
    this.#empty = 0
    this.inFlight = messages.length
    try {
      const mayGoOn = (): boolean => !this.#isStopped && lease.mayGoOn()
      const publishing = { destination, runtime, slots, callMs, mayGoOn }
      await this.#record(await publish(publishing, messages))
    } finally {
      this.inFlight = 0
    }
    // Otherwise one bucket may have more.
    return messages.length < bucketRows(buckets.length) ? POLLING.baseMs / 10 : 0
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
    this.#countAtMs = nowMs + COUNT_MS
    // Another relay may hold a key just after the last message of that key has left. Nothing else would ever free it.
    await store.free(name, buckets)
    this.#waiting = await store.waiting(name, buckets)
  }

  async #record({ confirmed, failure, refused }: Published): Promise<void> {
    const { name, settings, store } = this.#parts
    const { attempts, logger, runtime } = settings
    if (confirmed.length > 0) {
      this.lastProgressAt = new Date(runtime.now())
      await store.remove(confirmed)
      this.published += confirmed.length
    }
    if (failure === undefined) this.#breaker.succeeded()
    else {
      this.#breaker.failed(failure.error)
      logger.warn(
        { destination: name, err: failure.error },
        'a destination of the outbox is down; its messages wait',
      )
    }
    for (const { error, message } of refused) {
      this.refused += 1
      this.#countAtMs = 0
      const delayMs = pauseMs(REFUSED, message.attempt, runtime.random)
      const text = describeError(error).message.slice(0, LONGEST_ERROR).replaceAll('\0', '')
      const isDead = await store.fail(message, { attempts, delayMs, error: text })
      const fields = { destination: name, messageId: message.id, attempt: message.attempt + 1 }
      if (isDead) logger.error({ ...fields, err: error }, 'a message of the outbox is dead')
      else
        logger.warn({ ...fields, err: error }, 'a message of the outbox was refused; its key waits')
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
