import type { Runtime } from '@onceward/core'
import { CallTimeoutError, endsWithin, withTimeout } from '@onceward/core/adapter'
import type { ConsumeMessage, Options } from 'amqplib'
import type { AmqpChannel, AmqpConfirmChannel } from '../client.ts'
import { PublishError } from '../errors.ts'

/**
 * Settles the messages that one channel delivered: each once, on this channel, and never after it closed (A1, T18).
 *
 * Acks of one microtask are sent together, before code that awaits the guard can close the channel. The flag
 * `multiple` covers every lower tag of the channel, also tags of other consumers (A11). It is therefore used only below
 * the lowest tag in hand, and never again once a tag was missing because another consumer got it.
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
    const isBelow = (message: ConsumeMessage): boolean => this.#isAlone && tagOf(message) < lowest
    const below = acks.filter(isBelow)
    const last = below.reduce<ConsumeMessage | undefined>(
      (highest, each) => (highest === undefined || tagOf(each) > tagOf(highest) ? each : highest),
      undefined,
    )
    if (last !== undefined) this.#send(() => this.#channel.ack(last, below.length > 1))
    for (const message of acks) {
      if (!isBelow(message)) this.#send(() => this.#channel.ack(message))
    }
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

/** A channel with one consumer on it. */
export class ConsumerChannel {
  readonly deliveries: DeliveryChannel
  readonly #channel: AmqpChannel
  #tag: string | undefined

  constructor(channel: AmqpChannel) {
    this.#channel = channel
    this.deliveries = new DeliveryChannel(channel)
  }

  get isConsuming(): boolean {
    return this.#tag !== undefined
  }

  async consume(
    queue: string,
    options: Options.Consume,
    onMessage: (message: ConsumeMessage | null) => void,
  ): Promise<void> {
    const { consumerTag } = await this.#channel.consume(queue, onMessage, options)
    this.#tag = consumerTag
  }

  /** The server cancelled the consumer: there is nothing left to cancel. */
  cancelled(): void {
    this.#tag = undefined
  }

  async cancel(): Promise<void> {
    const tag = this.#tag
    this.#tag = undefined
    if (tag !== undefined && this.deliveries.isOpen) await this.#channel.cancel(tag)
  }

  /** Closes the channel: the broker takes back what was not settled. Bounded, and never rejects. */
  async close(runtime: Runtime): Promise<void> {
    this.deliveries.flush()
    this.deliveries.closed()
    const closing = closed(this.#channel)
    await endsWithin(runtime, closing, CLOSE_MS)
  }
}

const CLOSE_MS = 2_000

/** An async function, because `close()` of a closed channel throws rather than rejects. */
async function closed(channel: AmqpChannel): Promise<void> {
  await channel.close().catch(() => undefined)
}

/** A message on its way to the broker. */
export interface Outgoing {
  readonly exchange: string
  readonly routingKey: string
  readonly content: Buffer
  readonly options: Options.Publish
  /** What to do when the message reaches no queue. */
  readonly remedy: string
  /** Its own headers leave no room for {@link PUBLISH_ID}. */
  readonly isBare?: true
}

/** Identifies a returned message: its event comes before the confirm and carries no other id (A2). */
export const PUBLISH_ID = 'x-onceward-publish-id'

/** No longer than the guard waits for a dead letter. */
const CONFIRM_MS = 10_000
const OPEN_MS = 10_000

interface Pending {
  returned: string | undefined
  readonly isBare: boolean
}

interface Outlet {
  readonly channel: AmqpConfirmChannel
  readonly pending: Map<string, Pending>
  /** Why the server closed the channel; the confirms only say that it closed. */
  error: unknown
}

export interface PublisherOptions {
  readonly open: () => Promise<AmqpConfirmChannel>
  readonly runtime: Runtime
  readonly onError: (error: unknown) => void
  /** Checked before each publish on a user's channel, where an error would close the channel. */
  readonly before?: ((outgoing: Outgoing) => Promise<void>) | undefined
}

/** Publishes mandatory, persistent messages with confirms, on a channel of its own that is opened when needed (A3). */
export class Publisher {
  /** Why the broker accepts no messages now; set from outside. */
  blocked: string | undefined
  readonly #options: PublisherOptions
  #outlet: Promise<Outlet> | undefined

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  /**
   * Resolves once the broker has confirmed the message and a queue has it.
   *
   * @throws {@link PublishError} and errors of the client; the message may be in the queue all the same.
   */
  async publish(outgoing: Outgoing): Promise<void> {
    if (this.blocked !== undefined) {
      throw new PublishError(`the broker blocks publishers: ${this.blocked}`)
    }
    const { runtime, before } = this.#options
    await before?.(outgoing)
    const limits = { call: 'createConfirmChannel', budgetMs: OPEN_MS }
    const outlet = await withTimeout(runtime, this.#open(), limits)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const sent = this.#send(outlet, outgoing, (error) => {
      if (error === undefined) resolve()
      else reject(error)
    })
    const late = (): void => reject(new CallTimeoutError('a publisher confirm', CONFIRM_MS))
    const cancel = runtime.setTimer(late, CONFIRM_MS)
    try {
      await promise
    } finally {
      cancel()
      outlet.pending.delete(sent)
    }
  }

  /** Closes its channel without waiting for messages under way. */
  async close(): Promise<void> {
    const opening = this.#outlet
    this.#outlet = undefined
    const { runtime } = this.#options
    const closing = opening?.then(({ channel }) => closed(channel)).catch(() => undefined)
    if (closing !== undefined) await endsWithin(runtime, closing, CLOSE_MS)
  }

  #send(outlet: Outlet, outgoing: Outgoing, done: (error?: unknown) => void): string {
    const { exchange, routingKey, content, options, remedy, isBare = false } = outgoing
    const id = this.#options.runtime.uuid()
    const pending: Pending = { returned: undefined, isBare }
    outlet.pending.set(id, pending)
    const headers = isBare ? options.headers : { ...options.headers, [PUBLISH_ID]: id }
    const confirmed = (error: unknown): void => {
      if (error) done(outlet.error ?? error)
      else if (pending.returned === undefined) done()
      else done(PublishError.unroutable(outgoing, pending.returned))
    }
    try {
      const all = { ...options, headers, mandatory: true, persistent: true }
      outlet.channel.publish(exchange, routingKey, content, all, confirmed)
    } catch (error) {
      done(new PublishError(`the client refused to publish; ${remedy}`, { cause: error }))
    }
    return id
  }

  #open(): Promise<Outlet> {
    this.#outlet ??= this.#opened()
    const opening = this.#outlet
    opening.catch(() => this.#forget(opening))
    return opening
  }

  async #opened(): Promise<Outlet> {
    const channel = await this.#options.open()
    const outlet: Outlet = { channel, pending: new Map(), error: undefined }
    const opening = this.#outlet
    channel.on('error', (error: unknown) => {
      outlet.error = error
      this.#options.onError(error)
    })
    channel.on('close', () => this.#forget(opening))
    channel.on('return', (message: ReturnedMessage) => {
      const id = message.properties.headers?.[PUBLISH_ID]
      const pending = outlet.pending.get(String(id))
      // One that was routed and is published again costs a second copy; one that was not must not count as published.
      const returned = pending === undefined ? bareOnes(outlet) : [pending]
      for (const one of returned) one.returned = message.fields.replyText ?? 'returned'
    })
    return outlet
  }

  #forget(opening: Promise<Outlet> | undefined): void {
    if (this.#outlet === opening) this.#outlet = undefined
  }
}

const bareOnes = ({ pending }: Outlet): readonly Pending[] =>
  [...pending.values()].filter(({ isBare }) => isBare)

interface ReturnedMessage {
  readonly fields: { readonly replyText?: string }
  readonly properties: { readonly headers?: Readonly<Record<string, unknown>> | undefined }
}
