import { endsWithin, withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { ConsumeMessage, Options } from 'amqplib'
import type { AmqpChannel } from '../client.ts'

/**
 * Settles the messages that one channel delivered: each once, on this channel, and never after it closed (A1, T18).
 *
 * Acks of one microtask are sent together, before code that awaits the guard can close the channel. The flag
 * `multiple` covers every lower tag of the channel, also tags of other consumers (A11). It is therefore used only below
 * the lowest unsettled tag, and never again once a tag was missing because another consumer got it.
 */
export class DeliveryChannel {
  readonly #channel: Pick<AmqpChannel, 'ack' | 'nack'>
  #isOpen = true
  /** Tags, ascending. */
  readonly #inHand = new Set<number>()
  #lastTag = 0
  /** True while every tag so far was delivered to this consumer. */
  #isAlone = true
  #acks: ConsumeMessage[] = []
  #isFlushing = false

  constructor(channel: Pick<AmqpChannel, 'ack' | 'nack'>) {
    this.#channel = channel
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Deliveries that were not settled. */
  get inHand(): number {
    return this.#inHand.size
  }

  delivered(message: ConsumeMessage): void {
    const tag = tagOf(message)
    if (tag !== this.#lastTag + 1) this.#isAlone = false
    this.#lastTag = tag
    this.#inHand.add(tag)
  }

  /** The channel closed: the broker takes back every message that was not settled. */
  closed(): void {
    this.#isOpen = false
    this.#acks = []
  }

  /** Answers false if the channel is closed or the message was settled before. */
  ack(message: ConsumeMessage): boolean {
    if (!this.#settle(message)) return false
    this.#acks.push(message)
    if (!this.#isFlushing) {
      this.#isFlushing = true
      queueMicrotask(() => this.flush())
    }
    return true
  }

  /** Returns a message to the queue, or without `requeue` to its dead-letter exchange. Answers as {@link ack} does. */
  nack(message: ConsumeMessage, requeue: boolean): boolean {
    if (!this.#settle(message)) return false
    return this.#send(() => this.#channel.nack(message, false, requeue))
  }

  /** Sends the acks that wait for the end of this microtask. */
  flush(): void {
    this.#isFlushing = false
    const acks = this.#acks
    this.#acks = []
    const [lowest = Number.POSITIVE_INFINITY] = this.#inHand
    const single: ConsumeMessage[] = []
    let below = 0
    let last: ConsumeMessage | undefined
    for (const message of acks) {
      if (!this.#isAlone || tagOf(message) > lowest) {
        single.push(message)
        continue
      }
      below += 1
      if (last === undefined || tagOf(message) > tagOf(last)) last = message
    }
    if (last !== undefined) this.#ack(last, below > 1)
    for (const message of single) this.#ack(message, false)
  }

  #ack(message: ConsumeMessage, isUpTo: boolean): void {
    this.#send(() => this.#channel.ack(message, isUpTo))
  }

  #settle(message: ConsumeMessage): boolean {
    return this.#isOpen && this.#inHand.delete(tagOf(message))
  }

  /** A channel that is closing throws before it emits its event. */
  #send(verb: () => void): boolean {
    try {
      if (this.#isOpen) verb()
    } catch {
      this.closed()
    }
    return this.#isOpen
  }
}

const tagOf = ({ fields }: ConsumeMessage): number => fields.deliveryTag

/** For a consumer to begin or to end. */
const CALL_MS = 30_000

/**
 * A channel with the consumers of one queue on it.
 *
 * A consumer keeps the prefetch with which it began, and a cancelled one may still have messages on the way to it,
 * which a quorum queue then counts as delivered and returned. So one more consumer fetches more messages, and
 * cancelling the latest one fetches fewer.
 */
export class ConsumerChannel {
  readonly deliveries: DeliveryChannel
  readonly #channel: AmqpChannel
  readonly #runtime: Runtime
  readonly #openedAtMs: number
  readonly #onEnd: (error: unknown) => void
  /** Of the live consumers, in the order in which they began. */
  readonly #tags = new Set<string>()

  /** @param onEnd - Called when it closed, or does not answer and is closed here; with the reason if there is one. */
  constructor(channel: AmqpChannel, runtime: Runtime, onEnd: (error: unknown) => void) {
    this.#channel = channel
    this.#runtime = runtime
    this.#openedAtMs = runtime.monotonic()
    this.#onEnd = onEnd
    let error: unknown
    channel.on('error', (why: unknown) => {
      error = why
    })
    channel.on('close', () => onEnd(error))
    this.deliveries = new DeliveryChannel(channel)
  }

  /** Live consumers. */
  get consumers(): number {
    return this.#tags.size
  }

  /** How long ago it was opened. */
  get ageMs(): number {
    return this.#runtime.monotonic() - this.#openedAtMs
  }

  /** Begins one more consumer, in bounded time. */
  async consume(
    queue: string,
    prefetch: number,
    options: Options.Consume,
    onMessage: (message: ConsumeMessage | null) => void,
  ): Promise<void> {
    let tag: string | undefined
    let isCancelled = false
    const received = (message: ConsumeMessage | null): void => {
      if (message === null) {
        isCancelled = true
        if (tag !== undefined) this.#tags.delete(tag)
      }
      onMessage(message)
    }
    const begun = await this.#bounded('basic.consume', async () => {
      await this.#channel.prefetch(prefetch)
      return this.#channel.consume(queue, received, options)
    })
    tag = begun.consumerTag
    // The server may cancel a consumer before this code hears that it began.
    if (!isCancelled) this.#tags.add(tag)
  }

  /** Cancels the latest consumer, in bounded time. */
  async cancelLatest(): Promise<void> {
    const [latest] = [...this.#tags].reverse()
    if (latest !== undefined) await this.#bounded('basic.cancel', () => this.#cancel(latest))
  }

  /** Cancels all consumers. */
  async cancel(): Promise<void> {
    await Promise.all([...this.#tags].map((tag) => this.#cancel(tag)))
  }

  /**
   * A call that fails ends the channel. A server whose queue hangs answers heartbeats, but not this call, and a consumer
   * that begins late would never be cancelled. And a channel may have closed before anybody listened: then no event says so.
   */
  async #bounded<T>(call: string, answer: () => Promise<T>): Promise<T> {
    try {
      return await withTimeout(this.#runtime, answer(), { call, budgetMs: CALL_MS })
    } catch (error) {
      void this.close()
      this.#onEnd(error)
      throw error
    }
  }

  async #cancel(tag: string): Promise<void> {
    this.#tags.delete(tag)
    if (this.deliveries.isOpen) await this.#channel.cancel(tag)
  }

  /** Closes the channel: the broker takes back what was not settled. Bounded, and never rejects. */
  async close(): Promise<void> {
    this.deliveries.flush()
    this.deliveries.closed()
    await closeChannel(this.#runtime, this.#channel)
  }
}

const CLOSE_MS = 2_000

/** Closes a channel that may be closed already. Bounded, and never rejects. */
export async function closeChannel(
  runtime: Runtime,
  channel: Pick<AmqpChannel, 'close'>,
): Promise<void> {
  // An async function, because `close()` of a closed channel throws rather than rejects.
  const closing = (async () => channel.close())()
  await endsWithin(runtime, closing, CLOSE_MS)
}
