import { endsWithin, withTimeout } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { Options } from 'amqplib'
import type { AmqpConfirmChannel } from '../client.ts'
import { classifyError, PublishError } from '../errors.ts'
import { closeChannel } from './amqplib.ts'
import { learnLimit, refuseTooLarge } from './frame-size.ts'
import { listenTo } from './listeners.ts'

/** A message on its way to the broker. */
export interface Outgoing {
  /**
   * Identifies the message, equal for each try: the received message, or the text that names a stored dead letter.
   * While its confirm is outstanding, another try waits for it instead of publishing one more copy.
   */
  readonly of: object | string
  readonly kind: 'deferral' | 'dead-letter'
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
const CLOSE_MS = 2_000

interface Pending {
  returned: string | undefined
  readonly isBare: boolean
}

interface Outlet {
  readonly channel: AmqpConfirmChannel
  /** Listens to it no more. */
  readonly detach: () => void
  /** The next message opens another. */
  readonly forget: () => void
  /** Why the server closed the channel; the confirms only say that it closed. */
  error: unknown
}

export interface PublisherOptions {
  /** Bounded. */
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
  readonly #sent = { deferral: new Sent(), 'dead-letter': new Sent() }
  readonly #pending = new Map<string, Pending>()
  #outlet: Promise<Outlet> | undefined
  /** Messages that wait for the channel. */
  #waiting = 0
  #isReleased = false

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  /** Messages that were published and whose confirm has not come. */
  get unconfirmed(): number {
    return this.#pending.size
  }

  /**
   * Resolves once the broker has confirmed the message and a queue has it. After a missing confirm another call for the
   * same message waits for that confirm, which may come minutes later, when an alarm of the broker ends.
   *
   * @throws {@link PublishError} and errors of the client; the message may be in the queue nevertheless.
   */
  async publish(outgoing: Outgoing): Promise<void> {
    const sent = this.#sent[outgoing.kind]
    const earlier = sent.get(outgoing.of)
    const confirm = earlier ?? (await this.#publish(outgoing)).confirm
    const limits = { call: 'a publisher confirm', budgetMs: CONFIRM_MS }
    await withTimeout(this.#options.runtime, confirm, limits)
    sent.delete(outgoing.of)
  }

  /** Closes its channel without waiting for messages under way. */
  async close(): Promise<void> {
    const opening = this.#outlet
    this.#outlet = undefined
    const { runtime } = this.#options
    const closing = opening
      ?.then(({ channel }) => closeChannel(runtime, channel))
      .catch(() => undefined)
    if (closing !== undefined) await endsWithin(runtime, closing, CLOSE_MS)
  }

  /** Leaves its channel open, and removes its listeners once everything is confirmed: until then it must see returns. */
  release(): void {
    this.#isReleased = true
    const opening = this.#outlet
    if (this.#waiting > 0 || this.#pending.size > 0 || opening === undefined) return
    this.#outlet = undefined
    opening.then(({ detach }) => detach()).catch(() => undefined)
  }

  /** Answers the confirm once the message is on its way. */
  async #publish(outgoing: Outgoing): Promise<{ readonly confirm: Promise<void> }> {
    if (this.blocked !== undefined) {
      throw new PublishError(`the broker blocks publishers: ${this.blocked}`)
    }
    await this.#options.before?.(outgoing)
    const outlet = await this.#open()
    const { promise: confirm, resolve, reject } = Promise.withResolvers<void>()
    this.#send(outlet, outgoing, (error) => {
      if (error === undefined) resolve()
      else reject(error)
    })
    this.#sent[outgoing.kind].add(outgoing.of, confirm)
    return { confirm }
  }

  #send(outlet: Outlet, outgoing: Outgoing, done: (error?: unknown) => void): void {
    const { exchange, routingKey, content, options, remedy, isBare = false } = outgoing
    const id = this.#options.runtime.uuid()
    const pending: Pending = { returned: undefined, isBare }
    const headers = isBare ? options.headers : { ...options.headers, [PUBLISH_ID]: id }
    const ended = (error: unknown): void => {
      this.#pending.delete(id)
      if (this.#isReleased) this.release()
      if (error) done(outlet.error ?? error)
      else if (pending.returned === undefined) done()
      else done(PublishError.unroutable(outgoing, pending.returned))
    }
    this.#pending.set(id, pending)
    try {
      const all = { ...options, headers, mandatory: true, persistent: true }
      refuseTooLarge(outlet.channel, all, content)
      outlet.channel.publish(exchange, routingKey, content, all, ended)
    } catch (error) {
      // Closed before anybody listened, so no event says so.
      const isClosed = classifyError(error).kind === 'network'
      if (isClosed) outlet.forget()
      ended(isClosed ? error : refusedByClient(error, remedy))
    }
  }

  async #open(): Promise<Outlet> {
    this.#outlet ??= this.#opened()
    const opening = this.#outlet
    this.#waiting += 1
    try {
      return await opening
    } catch (error) {
      this.#forget(opening)
      throw error
    } finally {
      this.#waiting -= 1
    }
  }

  async #opened(): Promise<Outlet> {
    const { open, onError } = this.#options
    const channel = await open()
    const current = this.#outlet
    const forget = (): void => this.#forget(current)
    const detach = listenTo(channel, {
      error: (error: unknown) => {
        outlet.error = error
        learnLimit(channel, error)
        onError(error)
      },
      close: forget,
      return: (message: ReturnedMessage) => this.#returned(message),
    })
    const outlet: Outlet = { channel, detach, forget, error: undefined }
    return outlet
  }

  #returned({ properties, fields }: ReturnedMessage): void {
    const pending = this.#pending.get(String(properties.headers?.[PUBLISH_ID]))
    // One that was routed and is published again costs a second copy; one that was not must not count as published.
    const bareOnes = [...this.#pending.values()].filter(({ isBare }) => isBare)
    const returned = pending === undefined ? bareOnes : [pending]
    for (const one of returned) one.returned = fields.replyText ?? 'returned'
  }

  #forget(opening: Promise<Outlet> | undefined): void {
    if (this.#outlet === opening) this.#outlet = undefined
  }
}

function refusedByClient(cause: unknown, remedy: string): PublishError {
  const why = cause instanceof RangeError ? cause.message : remedy
  return new PublishError(`the client refused to publish; ${why}`, { cause })
}

interface ReturnedMessage {
  readonly fields: { readonly replyText?: string }
  readonly properties: { readonly headers?: Readonly<Record<string, unknown>> | undefined }
}

/** The confirms of stored dead letters that came late are remembered up to this number. */
const MOST_DEAD_LETTERS = 1_000

/** What was published and is not known to have arrived, by what it is. */
class Sent {
  readonly #messages = new WeakMap<object, Promise<void>>()
  readonly #deadLetters = new Map<string, Promise<void>>()

  get(of: Outgoing['of']): Promise<void> | undefined {
    return typeof of === 'string' ? this.#deadLetters.get(of) : this.#messages.get(of)
  }

  /** A failed publish is removed, so that it is published again. A late confirm is kept, so that it is not. */
  add(of: Outgoing['of'], confirm: Promise<void>): void {
    confirm.catch(() => this.delete(of))
    if (typeof of !== 'string') {
      this.#messages.set(of, confirm)
      return
    }
    this.#deadLetters.set(of, confirm)
    const [oldest] = this.#deadLetters.keys()
    if (this.#deadLetters.size > MOST_DEAD_LETTERS && oldest !== undefined)
      this.#deadLetters.delete(oldest)
  }

  delete(of: Outgoing['of']): void {
    if (typeof of === 'string') this.#deadLetters.delete(of)
    else this.#messages.delete(of)
  }
}
