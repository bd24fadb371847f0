import type { Message } from '@aws-sdk/client-sqs'
import { OncewardError, type Settlement } from '@onceward/core'
import {
  type Availability,
  byOrderingKey,
  type ConsumptionEnd,
  type GuardPort,
  type Outage,
  pauseMs,
  Recovery,
} from '@onceward/core/adapter'
import { ENTRIES, type Wire } from './clients/aws-sdk.ts'
import type { Intake } from './dispatch.ts'
import { BACKOFF, type Trouble, troubleOf } from './errors.ts'
import type { Handover } from './handover.ts'
import type { Settings } from './options.ts'
import type { Received } from './visibility.ts'

export interface PollerOptions {
  readonly port: GuardPort
  readonly wire: Pick<Wire, 'receive'>
  readonly settings: Settings
  readonly handover: Pick<Handover, 'accept'>
  readonly intake: Intake
  /** What must have been looked at before the first receive. */
  readonly check: () => Promise<void>
  readonly onEnd: (end: ConsumptionEnd) => void
}

interface Poll {
  readonly max: number
  readonly waitMs: number
  readonly startedAtMs: number
  /** Sent to learn whether the store is back. */
  readonly isProbe: boolean
}

type Down = Extract<Availability, { kind: 'down' }>

/** Long polls at once; each brings up to ten messages. */
const MOST_POLLS = 10
/** Between two receives that came back empty without having waited. */
const EMPTY_PAUSE_MS = 200
/** The availability of the store is a local answer, looked at this often while it is down. */
const LOOK_MS = 1_000

/**
 * Receives as much as can start soon, for ever: an error of SQS is waited out (trap T16: one transient error ends
 * the poll loop silently), and while the store is down one message at a time finds out whether it is back.
 */
export class Poller {
  lastProgressAt: Date | undefined
  readonly #options: PollerOptions
  readonly #setbacks: Recovery
  readonly #receiving = new AbortController()
  readonly #polls = new Set<Promise<void>>()
  #isStopped = false
  #checks: 'due' | 'running' | 'done' = 'due'
  #failures = 0
  #cancelWait: (() => void) | undefined
  /** Polls wanted at once: one more whenever one brought something, one while the queue is empty. */
  #appetite = 1
  #reserved = 0
  #isProbing = false

  constructor(options: PollerOptions) {
    this.#options = options
    this.#setbacks = new Recovery(options.port.logger, { queue: options.settings.queueUrl })
  }

  get setback(): Outage | undefined {
    return this.#setbacks.current
  }

  /** @throws {@link ConfigurationError}; anything else is waited out. */
  async start(): Promise<void> {
    const error = await this.#check()
    if (error !== undefined) throw error
    this.pump()
  }

  /** Aborts the receives alone: a settlement under way must arrive. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelWait?.()
    this.#receiving.abort()
    await Promise.allSettled(this.#polls)
  }

  known(settlement: Settlement): void {
    this.#isProbing = false
    if (settlement.kind === 'abandon' && settlement.reason === 'closing' && !this.#isStopped) {
      this.#options.onEnd({ kind: 'closed' })
    }
  }

  progressed(): void {
    this.lastProgressAt = new Date(this.#options.port.runtime.now())
  }

  /** Receives if there is reason to. */
  pump(): void {
    if (this.#isStopped || this.#cancelWait !== undefined || this.#checks === 'running') return
    if (this.#checks === 'due') return void this.#checkAgain()
    const { port, intake } = this.#options
    const availability = port.availability()
    if (availability.kind === 'down') {
      this.#probe(availability)
      return
    }
    if (this.setback?.state === 'paused') this.#setbacks.end()
    intake.resume('all')
    while (this.#polls.size < this.#appetite) {
      const room = intake.room - this.#reserved
      if (room < intake.worthwhile) return
      this.#poll(Math.min(ENTRIES, room, this.#options.settings.batchSize), false)
    }
  }

  /** One message, one that is in hand already if there is any: each receive counts towards `maxReceiveCount`. */
  #probe({ retryAt, error }: Down): void {
    const { port, intake } = this.#options
    this.#setbacks.begin({ state: 'paused', reason: troubleOf(error).text })
    const waitMs = retryAt - port.runtime.now()
    if (waitMs > 0) this.#wait(Math.min(waitMs, LOOK_MS))
    if (waitMs > 0 || this.#isProbing) return
    const isInHand = intake.resume('one')
    this.#isProbing = isInHand || this.#polls.size === 0
    if (this.#isProbing && !isInHand) this.#poll(1, true)
  }

  #poll(max: number, isProbe: boolean): void {
    const { port, settings } = this.#options
    // After a setback the first receive does not wait: it only has to show that SQS answers.
    const waitMs = this.setback?.state === 'recovering' ? 0 : settings.longPollMs
    const startedAtMs = port.runtime.monotonic()
    this.#reserved += max
    const poll = this.#receive({ max, waitMs, startedAtMs, isProbe }).then(() => {
      this.#polls.delete(poll)
      this.pump()
    })
    this.#polls.add(poll)
  }

  async #receive(poll: Poll): Promise<void> {
    const { wire, settings, handover } = this.#options
    const { max, waitMs, startedAtMs, isProbe } = poll
    try {
      const request = { max, waitMs, visibilityMs: settings.visibilityMs }
      const messages = await wire.receive(request, this.#receiving.signal)
      this.#reserved -= max
      this.#answered(poll, messages)
      this.#take(handover.accept(messages, startedAtMs), isProbe)
    } catch (error) {
      this.#reserved -= max
      if (isProbe) this.#isProbing = false
      this.#failed(error)
    }
  }

  #answered({ waitMs, startedAtMs, isProbe }: Poll, messages: readonly Message[]): void {
    const { port, settings } = this.#options
    this.progressed()
    this.#failures = 0
    if (this.setback?.state === 'recovering') this.#setbacks.end()
    if (messages.length > 0) {
      const most = Math.min(MOST_POLLS, Math.ceil(this.#options.intake.capacity / ENTRIES))
      this.#appetite = Math.min(this.#appetite + 1, most)
      return
    }
    this.#appetite = 1
    if (isProbe) this.#isProbing = false
    const waitedMs = port.runtime.monotonic() - startedAtMs
    const isShort = settings.longPollMs < LOOK_MS || waitedMs < waitMs / 2
    if (isShort) this.#wait(EMPTY_PAUSE_MS * (1 + port.runtime.random()))
  }

  #take(received: readonly Received[], isProbe: boolean): void {
    const { port, intake } = this.#options
    const availability = port.availability()
    if (this.#isStopped) intake.refuse(received)
    else if (availability.kind === 'available' || isProbe) intake.take(received)
    else this.#takeLate(received, availability)
  }

  /** A poll from before the outage: its messages wait for the store, but one group may ask for it. */
  #takeLate(received: readonly Received[], { retryAt }: Down): void {
    const { port, intake } = this.#options
    const mayProbe = !this.#isProbing && retryAt <= port.runtime.now()
    const probe = mayProbe ? (byOrderingKey(received)[0] ?? []) : []
    this.#isProbing ||= probe.length > 0
    intake.take(probe)
    intake.park(received.filter((each) => !probe.includes(each)))
  }

  #failed(error: unknown): void {
    this.#appetite = 1
    if (OncewardError.is(error)) this.#options.onEnd({ kind: 'fatal', error })
    // One report of several polls is enough.
    if (this.#isStopped || this.#cancelWait !== undefined) return
    const trouble = troubleOf(error)
    this.#setbacks.begin({ state: 'recovering', reason: trouble.text })
    this.#backOff(trouble)
  }

  async #check(): Promise<OncewardError | undefined> {
    this.#checks = 'running'
    try {
      await this.#options.check()
      this.#checks = 'done'
      this.#failures = 0
      this.#setbacks.end()
    } catch (error) {
      this.#checks = 'due'
      const isOurs = OncewardError.is(error)
      const isStore = isOurs && error.code === 'ONCEWARD_STORE_UNAVAILABLE'
      if (isOurs && !isStore) return error
      const trouble = troubleOf(error)
      this.#setbacks.begin({ state: isStore ? 'paused' : 'recovering', reason: trouble.text })
      this.#backOff(isStore ? { ...trouble, kind: 'network' } : trouble)
    }
    return undefined
  }

  async #checkAgain(): Promise<void> {
    const error = await this.#check()
    if (error !== undefined) this.#options.onEnd({ kind: 'fatal', error })
    else this.pump()
  }

  #backOff({ kind }: Trouble): void {
    const { runtime } = this.#options.port
    this.#wait(pauseMs(BACKOFF[kind], this.#failures, () => runtime.random()))
    this.#failures += 1
  }

  #wait(delayMs: number): void {
    if (this.#isStopped || this.#cancelWait !== undefined) return
    const over = (): void => {
      this.#cancelWait = undefined
      this.pump()
    }
    this.#cancelWait = this.#options.port.runtime.setTimer(over, delayMs)
  }
}
