import { OncewardError, type Settlement } from '@onceward/core'
import {
  type BackoffRange,
  type ConsumptionEnd,
  endsWithin,
  type GuardPort,
  type Outage,
  pauseMs,
  Recovery,
  withTimeout,
} from '@onceward/core/adapter'
import type { ConsumeMessage } from 'amqplib'
import type { AmqpConnection, Connector } from './client.ts'
import { type Line, Link } from './clients/amqplib.ts'
import type { Intake } from './dispatch.ts'
import { BACKOFF, CancelledError, connectionGone, isConnectionClosed, troubleOf } from './errors.ts'
import type { Handover } from './handover.ts'
import type { Settings } from './options.ts'

export interface SubscriberOptions {
  readonly port: GuardPort
  readonly settings: Settings
  readonly connector: Connector
  readonly handover: Pick<Handover, 'accept'>
  readonly intake: Pick<Intake, 'take' | 'drop' | 'resume' | 'inFlight'>
  /** What must be looked at on a new connection before anything is consumed. */
  readonly check: (connection: AmqpConnection) => Promise<void>
  readonly onEnd: (end: ConsumptionEnd) => void
}

/** The availability of the store is a local answer, looked at this often while it is down. */
const LOOK_MS = 1_000
const OPEN_MS = 30_000
/** So long a start waits for its outcome. */
const START_MS = 45_000
const CLOSE_MS = 2_000
/** A channel that lived this long was no part of a row of failures. */
const STABLE_MS = 10_000

/**
 * Keeps a consumer on the queue, for ever: a channel, a consumer or a connection that ends is replaced after a pause
 * (A1, A5, A12), and while the store is down the consumer is cancelled, with what is in hand kept there.
 */
export class Subscriber {
  lastProgressAt: Date | undefined
  readonly #options: SubscriberOptions
  readonly #setbacks: Recovery
  /** Cancelled by the server, and yet to be told about what is in hand. */
  readonly #retired = new Set<Link>()
  #blocked: string | undefined
  #link: Link | undefined
  #checked: AmqpConnection | undefined
  #isStopped = false
  #isBusy = false
  #failures = 0
  #cancelWait: (() => void) | undefined

  constructor(options: SubscriberOptions) {
    this.#options = options
    this.#setbacks = new Recovery(options.port.logger, { queue: options.settings.queue })
  }

  get setback(): Outage | undefined {
    const { current } = this.#setbacks
    if (current !== undefined || this.#blocked === undefined) return current
    return { state: 'recovering', reason: `the broker blocks publishers: ${this.#blocked}` }
  }

  /** @throws {@link ConfigurationError} for what can never work. */
  async start(): Promise<void> {
    const step = this.#step()
    if (await endsWithin(this.#options.port.runtime, step, START_MS)) {
      const error = await step
      if (error !== undefined) throw error
      return
    }
    // A connection with amqplib's own recovery lets us wait until it is there.
    this.#setbacks.begin({ state: 'recovering', reason: 'the connection is not there yet' })
    void step.then((error) => this.#endOn(error))
  }

  /** Resolves when no more messages come, or the broker does not answer. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelWait?.()
    await this.quiet()
  }

  /** Ends the consumer for good: what is given back afterwards goes to others. */
  async quiet(): Promise<true> {
    const cancelled = this.#link?.cancel().catch(() => undefined)
    if (cancelled !== undefined) {
      await endsWithin(this.#options.port.runtime, cancelled, CLOSE_MS)
    }
    return true
  }

  /** Closes its channels: what was not settled is the broker's again. */
  async finish(): Promise<void> {
    const links = [...this.#retired, ...(this.#link === undefined ? [] : [this.#link])]
    this.#link = undefined
    await Promise.all(links.map((link) => this.#close(link)))
  }

  known(settlement: Settlement): void {
    if (settlement.kind === 'abandon' && settlement.reason === 'closing' && !this.#isStopped) {
      this.#options.onEnd({ kind: 'closed' })
    }
    this.pump()
  }

  settled(line: Line): void {
    this.#failures = 0
    this.#progressed()
    for (const link of this.#retired) {
      if (link.line === line && line.inHand === 0) void this.#close(link)
    }
    this.pump()
  }

  blocked(reason: string | undefined): void {
    if (reason === this.#blocked) return
    this.#blocked = reason
    const { port, settings } = this.#options
    const fields = { queue: settings.queue, reason }
    if (reason !== undefined) port.logger.warn(fields, 'the broker blocks publishers')
    else port.logger.info(fields, 'the broker takes messages again')
  }

  /** Brings the consumer into the state that it should have. */
  pump(): void {
    if (this.#isStopped || this.#isBusy || this.#cancelWait !== undefined) return
    const isConsuming = this.#link?.isConsuming && this.#setbacks.current === undefined
    if (isConsuming && this.#options.port.availability().kind === 'available') return
    void this.#step().then((error) => this.#endOn(error))
  }

  #endOn(error: OncewardError | undefined): void {
    if (error !== undefined) this.#options.onEnd({ kind: 'fatal', error })
  }

  async #step(): Promise<OncewardError | undefined> {
    this.#isBusy = true
    try {
      const link = this.#link ?? (await this.#open())
      if (!this.#isStopped) await this.#adjust(link)
      return undefined
    } catch (error) {
      return this.#failed(error)
    } finally {
      this.#isBusy = false
    }
  }

  async #open(): Promise<Link> {
    const { port, connector } = this.#options
    await port.open()
    const connection = await connector.open()
    const opening = this.#openOn(connection)
    if (!connector.isOurs) return opening
    try {
      return await withTimeout(port.runtime, opening, { call: 'a new channel', budgetMs: OPEN_MS })
    } catch (error) {
      const { kind } = troubleOf(error)
      if (kind === 'network') connector.discard()
      throw error
    }
  }

  async #openOn(connection: AmqpConnection): Promise<Link> {
    const { port, settings } = this.#options
    if (this.#checked !== connection) {
      await this.#options.check(connection)
      this.#checked = connection
    }
    const channel = await connection.createChannel()
    const link = new Link(channel)
    const openedAtMs = port.runtime.monotonic()
    let error: unknown
    channel.on('error', (why: unknown) => {
      error = why
    })
    channel.on('close', () => this.#lost(link, error, openedAtMs))
    await channel.prefetch(settings.prefetch)
    if (this.#isStopped) await this.#close(link)
    else this.#link = link
    return link
  }

  async #adjust(link: Link): Promise<void> {
    const { port, intake } = this.#options
    const availability = port.availability()
    if (availability.kind === 'available') {
      if (!link.isConsuming) await this.#subscribe(link)
      if (this.#link === link && this.#setbacks.end()?.state === 'paused') intake.resume()
      return
    }
    this.#setbacks.begin({ state: 'paused', reason: troubleOf(availability.error).text })
    // Somebody must ask the store again: what is in hand does, or else the next message.
    const waitMs = availability.retryAt - port.runtime.now()
    const mayAsk = intake.inFlight === 0 && waitMs <= 0
    if (mayAsk && !link.isConsuming) await this.#subscribe(link)
    else if (!mayAsk) await link.cancel()
    this.#wait(Math.min(Math.max(waitMs, LOOK_MS / 10), LOOK_MS))
  }

  async #subscribe(link: Link): Promise<void> {
    const { queue, consumer } = this.#options.settings
    const options = { ...consumer, noAck: false }
    await link.consume(queue, options, (message) => this.#delivered(link, message))
    if (this.#isStopped) await link.cancel()
  }

  /** Never throws: amqplib would close the channel, or leave the message unsettled for ever (A4). */
  #delivered(link: Link, message: ConsumeMessage | null): void {
    const { port, handover, intake, settings } = this.#options
    if (message === null) {
      this.#cancelled(link)
      return
    }
    try {
      this.#progressed()
      intake.take(handover.accept(message, link.line))
    } catch (error) {
      port.logger.error({ queue: settings.queue, err: error }, 'a delivery could not be taken')
    }
  }

  /** By the server: its channel is still good for settling (A5). */
  #cancelled(link: Link): void {
    link.cancelled()
    if (this.#link !== link) return
    this.#link = undefined
    if (link.line.inHand > 0) this.#retired.add(link)
    else void this.#close(link)
    this.#endOn(this.#failed(new CancelledError(this.#options.settings.queue)))
  }

  #lost(link: Link, error: unknown, openedAtMs: number): void {
    link.line.closed()
    this.#retired.delete(link)
    this.#options.intake.drop(link.line)
    if (this.#link !== link) return
    this.#link = undefined
    if (this.#options.port.runtime.monotonic() - openedAtMs > STABLE_MS) this.#failures = 0
    this.#endOn(this.#failed(error ?? new Error('channel closed')))
  }

  /** The answer ends the consumer; what may pass is tried again. */
  #failed(error: unknown): OncewardError | undefined {
    if (this.#isStopped) return undefined
    const { connector } = this.#options
    const isOurs = OncewardError.is(error)
    const isStore = isOurs && error.code === 'ONCEWARD_STORE_UNAVAILABLE'
    // Once it has worked, what is missing may come back.
    if (isOurs && !isStore && this.#checked === undefined) return error
    if (connector.isOver(error)) return connectionGone(error)
    if (isConnectionClosed(error)) connector.discard()
    const trouble = troubleOf(error)
    this.#setbacks.begin({ state: isStore ? 'paused' : 'recovering', reason: trouble.text })
    this.#backOff(BACKOFF[isStore ? 'network' : trouble.kind])
    return undefined
  }

  #backOff(pauses: BackoffRange): void {
    const { runtime } = this.#options.port
    this.#wait(pauseMs(pauses, this.#failures, () => runtime.random()))
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

  async #close(link: Link): Promise<void> {
    this.#retired.delete(link)
    await link.close(this.#options.port.runtime)
  }

  #progressed(): void {
    this.lastProgressAt = new Date(this.#options.port.runtime.now())
  }
}
