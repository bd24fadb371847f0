import type { OncewardError, Settlement } from '@onceward/core'
import {
  CallTimeoutError,
  type ConsumptionEnd,
  endsWithin,
  type GuardPort,
  isFatal,
  type Outage,
  oncePerTurn,
  pauseOf,
  Recovery,
  STORE_LOOK_MS,
  withTimeout,
} from '@onceward/core/adapter'
import type { ConsumeMessage } from 'amqplib'
import type { AmqpConnection } from './client.ts'
import { ConsumerChannel } from './clients/amqplib.ts'
import type { Connector } from './clients/connector.ts'
import type { Accept, Received } from './delivery.ts'
import type { Dispatcher, DispatcherEvents } from './dispatch.ts'
import {
  BACKOFF,
  type BrokerErrorKind,
  CancelledError,
  classifyError,
  connectionGone,
  isConnectionClosed,
} from './errors.ts'
import type { Settings } from './options.ts'

/** What the check of a queue found out. */
export interface QueueTraits {
  /** Another consumer would take over if this one consumed again. */
  readonly isSingleActive: boolean
}

export interface ReceiverOptions {
  readonly port: GuardPort
  readonly settings: Settings
  readonly connector: Connector
  /** Why messages cannot be published, although they are received. */
  readonly publishing: { readonly outage: Outage | undefined }
  readonly accept: Accept
  readonly createDispatcher: (events: DispatcherEvents) => Dispatcher
  /** Must have succeeded on a new connection, and for each queue, before anything is consumed. */
  readonly check: (connection: AmqpConnection, isNewQueue: boolean) => Promise<QueueTraits>
  readonly onEnd: (end: ConsumptionEnd) => void
}

const OPEN_MS = 30_000
/** A start waits this long for its outcome. */
const START_MS = 45_000
const CLOSE_MS = 2_000
/** The end of a channel that lived this long does not count as one more failure in a row. */
const STABLE_MS = 10_000

/**
 * Keeps a consumer on the queue until it is stopped. A channel, a consumer or a connection that ends is replaced after
 * a pause (A1, A5, A12). While the store is down the consumer stays, because a queue without one may expire, and the
 * received messages are kept: at most the prefetch. While the consumer is paused by hand there is none on the queue.
 */
export class Receiver {
  /** Has the messages that came, until they are settled. */
  readonly dispatcher: Dispatcher
  readonly #options: ReceiverOptions
  readonly #recovery: Recovery<BrokerErrorKind>
  /** Channels whose consumer the server cancelled, while some of their messages are unsettled. */
  readonly #retired = new Set<ConsumerChannel>()
  #channel: ConsumerChannel | undefined
  #checked: { readonly connection: AmqpConnection; readonly traits: QueueTraits } | undefined
  /** The queue was gone. The next one of its name may have other arguments. */
  #isNewQueue = true
  #isBusy = false
  /** Looks once for all settlements of a turn of the event loop. */
  readonly #pumpSoon: () => void = oncePerTurn(() => this.pump())
  /** The broker has the settlement, or the message is held. */
  readonly #settled = ({ channel: deliveries }: Pick<Received, 'channel'>): void => {
    this.#recovery.succeeded()
    this.#recovery.progressed()
    for (const channel of this.#retired) {
      if (channel.deliveries === deliveries && deliveries.inHand === 0) void this.#close(channel)
    }
    this.#pumpSoon()
  }

  constructor(options: ReceiverOptions) {
    const { port, settings } = options
    this.#options = options
    this.dispatcher = options.createDispatcher({
      onKnown: this.known.bind(this),
      onSettled: this.#settled,
      stopDeliveries: () => this.stopDeliveries(),
    })
    this.#recovery = new Recovery<BrokerErrorKind>({
      port,
      fields: { queue: settings.queue },
      classifyError,
      backoff: BACKOFF,
      onRetry: () => this.pump(),
      onPaused: () => this.dispatcher.clear(),
      onEnd: options.onEnd,
    })
  }

  get outage(): Outage | undefined {
    return this.#recovery.outage ?? this.#options.publishing.outage
  }

  get lastProgressAt(): Date | undefined {
    return this.#recovery.lastProgressAt
  }

  /** @throws {@link ConfigurationError} for options that can never work. */
  async start(): Promise<void> {
    const step = this.#step()
    if (await endsWithin(this.#options.port.runtime, step, START_MS)) {
      const error = await step
      if (error !== undefined) throw error
      return
    }
    // A connection with amqplib's own recovery answers only once it is open.
    this.#recovery.begin({ state: 'recovering', reason: 'the connection is not there yet' })
    void step.then((error) => this.#recovery.endOn(error))
  }

  /** Resolves when no more messages come, or the broker does not answer. */
  async stop(): Promise<void> {
    this.#recovery.stop()
    await this.stopDeliveries()
  }

  /** Cancels the consumer, so that messages given back afterwards go to other consumers. */
  async stopDeliveries(): Promise<true> {
    const cancelled = this.#channel?.cancel().catch(() => undefined)
    if (cancelled !== undefined) await endsWithin(this.#options.port.runtime, cancelled, CLOSE_MS)
    return true
  }

  /** Closes its channels: the broker takes back what was not settled. */
  async finish(): Promise<void> {
    const channels = [...this.#retired, ...(this.#channel === undefined ? [] : [this.#channel])]
    this.#channel = undefined
    await Promise.all(channels.map((channel) => this.#close(channel)))
  }

  /** A settlement is stored: the store has answered. */
  known(settlement: Settlement): void {
    this.#recovery.known(settlement)
    this.#pumpSoon()
  }

  /** Brings the consumer into the state that it should be in. */
  pump(): void {
    const { isStopped, isPausing, outage } = this.#recovery
    if (isStopped || isPausing || this.#isBusy) return
    const isConsuming = this.#channel?.consumers === this.#prefetches.length
    const isAvailable = this.#options.port.availability().kind === 'available'
    if (isConsuming && outage === undefined && isAvailable) return
    void this.#step().then((error) => this.#recovery.endOn(error))
  }

  /** Returns the error that stops the consumer, if there is one. */
  async #step(): Promise<OncewardError | undefined> {
    this.#isBusy = true
    try {
      const channel = this.#channel ?? (await this.#open())
      if (!this.#recovery.isStopped) await this.#adjust(channel)
      return undefined
    } catch (error) {
      return this.#failed(error)
    } finally {
      this.#isBusy = false
    }
  }

  async #open(): Promise<ConsumerChannel> {
    const { port, connector } = this.#options
    await port.open()
    const connection = await connector.open()
    const opening = this.#openOn(connection)
    try {
      const channel = await (connector.isOurs
        ? withTimeout(port.runtime, opening, { call: 'a new channel', budgetMs: OPEN_MS })
        : opening)
      if (this.#recovery.isStopped) await this.#close(channel)
      else this.#channel = channel
      return channel
    } catch (error) {
      // A channel that opens late must not stay open, nor take the place of a newer one.
      opening.then((late) => this.#close(late)).catch(() => undefined)
      if (classifyError(error).kind === 'network') connector.discard()
      throw error
    }
  }

  async #openOn(connection: AmqpConnection): Promise<ConsumerChannel> {
    const { runtime } = this.#options.port
    if (this.#isNewQueue || this.#checked?.connection !== connection) {
      const traits = await this.#options.check(connection, this.#isNewQueue)
      this.#checked = { connection, traits }
      this.#isNewQueue = false
    }
    const opened = await connection.createChannel()
    const ended = (error: unknown): void => this.#lost(channel, error)
    const channel: ConsumerChannel = new ConsumerChannel(opened, runtime, ended)
    return channel
  }

  async #adjust(channel: ConsumerChannel): Promise<void> {
    // Settlements meanwhile may have changed how many there should be.
    while (this.#channel === channel && !this.#recovery.isStopped) {
      const prefetch = this.#prefetches[channel.consumers]
      if (prefetch !== undefined) await this.#subscribe(channel, prefetch)
      else if (channel.consumers > this.#prefetches.length) await channel.cancelLatest()
      else break
    }
    const wasPaused = this.#recovery.outage?.state === 'paused'
    const gate = this.#recovery.look()
    // Held messages ask the store by themselves.
    if (gate === 'probe') this.#recovery.pause(STORE_LOOK_MS / 10)
    if (gate !== 'open' || this.#channel !== channel) return
    this.#recovery.end()
    if (wasPaused) this.dispatcher.resume()
  }

  /** The prefetch of each consumer that there should be. */
  get #prefetches(): readonly number[] {
    const { port, settings } = this.#options
    const availability = port.availability()
    // A pause may last for days. After one that ends by itself, one message asks whether it is over.
    if (availability.kind === 'down' && availability.pause !== undefined) {
      return pauseOf(port) === undefined ? [1] : []
    }
    // Of several consumers of such a queue one gets messages.
    return this.#checked?.traits.isSingleActive ? [settings.prefetch] : this.dispatcher.prefetches
  }

  async #subscribe(channel: ConsumerChannel, prefetch: number): Promise<void> {
    const { queue, consumer } = this.#options.settings
    const { consumerTag, ...others } = consumer
    // The user's tag is that of the first consumer: tags of a channel are unique.
    const tag = channel.consumers === 0 && consumerTag !== undefined ? { consumerTag } : {}
    const options = { ...others, ...tag, noAck: false }
    await channel.consume(queue, prefetch, options, (message) => {
      if (message === null) this.#cancelled(channel)
      else this.#delivered(channel, message)
    })
    if (this.#recovery.isStopped || this.#channel !== channel) await channel.cancel()
  }

  /** Never throws: amqplib would close the channel, or never settle the message (A4). */
  #delivered(channel: ConsumerChannel, message: ConsumeMessage): void {
    const { port, accept, settings } = this.#options
    try {
      this.#recovery.progressed()
      this.dispatcher.take(accept(message, channel.deliveries))
    } catch (error) {
      port.logger.error({ queue: settings.queue, err: error }, 'a delivery could not be taken')
    }
  }

  /** The server cancelled the consumer; its channel is still good for settling (A5). */
  #cancelled(channel: ConsumerChannel): void {
    if (this.#channel !== channel) return
    this.#channel = undefined
    void channel.cancel().catch(() => undefined)
    if (channel.deliveries.inHand > 0) this.#retired.add(channel)
    else void this.#close(channel)
    this.#recovery.endOn(this.#failed(new CancelledError(this.#options.settings.queue)))
  }

  #lost(channel: ConsumerChannel, error: unknown): void {
    channel.deliveries.closed()
    this.#retired.delete(channel)
    this.dispatcher.drop(channel.deliveries)
    if (this.#channel !== channel) return
    this.#channel = undefined
    if (channel.ageMs > STABLE_MS) this.#recovery.succeeded()
    // Its connection may be as silent.
    if (error instanceof CallTimeoutError) this.#options.connector.discard()
    this.#recovery.endOn(this.#failed(error ?? new Error('channel closed')))
  }

  /** Answers an error that ends the consumer; any other error is retried. */
  #failed(error: unknown): OncewardError | undefined {
    if (this.#recovery.isStopped) return undefined
    const { connector } = this.#options
    // A queue that existed before may come back.
    if (isFatal(error) && this.#checked === undefined) return error
    if (connector.isOver(error)) return connectionGone(error)
    if (isConnectionClosed(error)) connector.discard()
    const { kind } = classifyError(error)
    if (kind === 'cancelled' || kind === 'missing') this.#isNewQueue = true
    this.#recovery.failed(error)
    return undefined
  }

  async #close(channel: ConsumerChannel): Promise<void> {
    this.#retired.delete(channel)
    await channel.close()
  }
}
