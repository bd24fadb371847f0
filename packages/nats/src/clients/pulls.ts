import { createInbox, type Msg, type Subscription } from '@nats-io/transport-node'
import { CallTimeoutError } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { NatsClient, Pull, Pulled, PullRequest } from '../client.ts'
import { infoOf } from '../delivery.ts'
import { JetStreamError } from '../errors.ts'
import { optionsOf } from './connection.ts'

/** Added to the time of a request: on a connection that went silent it must not wait without end. */
const SLACK_MS = 2_000
/** The server sends at once what is there. If it stops without a word, as at `max_ack_pending`, what came is enough. */
const QUIET_MS = 100

/** The statuses by which a request ends that brought less than it asked for. */
const ENDS: readonly number[] = [404, 408]

interface Open {
  readonly request: PullRequest
  readonly sentAtMs: number
  readonly messages: Pulled[]
  readonly resolve: (pull: Pull) => void
  readonly reject: (error: unknown) => void
  cancel: () => void
}

/**
 * Pull requests, one at a time, whose messages come on a subscription of our own. A request takes what is there, or waits
 * for a first message (`no_wait` with `expires`).
 *
 * @see https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-13.md
 */
export class Pulls {
  readonly #client: NatsClient
  readonly #runtime: Runtime
  readonly #subject: string
  #subscription: Subscription | undefined
  #inbox = ''
  #number = 0
  #open: Open | undefined
  /** Of a request that ended before them. */
  #late: Pull = { messages: [], sentAtMs: 0 }

  constructor(client: NatsClient, runtime: Runtime, subject: string) {
    this.#client = client
    this.#runtime = runtime
    this.#subject = subject
  }

  /** @throws the client's error. */
  pull(request: PullRequest): Promise<Pull> {
    if (this.#late.messages.length > 0) {
      const late = this.#late
      this.#late = { ...late, messages: [] }
      return Promise.resolve(late)
    }
    const { promise, resolve, reject } = Promise.withResolvers<Pull>()
    const sentAtMs = this.#runtime.monotonic()
    const open = { request, sentAtMs, messages: [], resolve, reject, cancel: () => undefined }
    this.#open = open
    this.#limit(request.expiresMs + SLACK_MS, () => this.#silent(request))
    this.#subscribe()
    this.#number += 1
    const { batch, expiresMs } = request
    const asked = { batch, expires: expiresMs * 1e6, no_wait: true }
    const reply = `${this.#inbox}.${this.#number}`
    this.#client.publish(this.#subject, JSON.stringify(asked), { reply })
    return promise
  }

  /** Ends the request that is under way: with what it has brought, or with the error. */
  interrupt(error: unknown): void {
    const open = this.#open
    if (open === undefined) return
    if (open.messages.length > 0) this.#end()
    else {
      this.#open = undefined
      open.cancel()
      open.reject(error)
    }
  }

  /** An error of the connection: it is about the request if it names its subject. */
  refused(error: Error): void {
    const { subject } = error as { readonly subject?: unknown }
    if (subject === this.#subject || String(subject).startsWith(this.#inbox)) this.interrupt(error)
  }

  close(): void {
    this.#subscription?.unsubscribe()
    this.#subscription = undefined
  }

  #subscribe(): void {
    if (this.#subscription !== undefined && !this.#subscription.isClosed()) return
    this.#inbox = createInbox(optionsOf(this.#client).inboxPrefix)
    this.#subscription = this.#client.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#receive(message)
        else this.interrupt(error)
      },
    })
  }

  #receive(message: Msg): void {
    const info = infoOf(message.reply)
    if (info === undefined) {
      this.#status(message)
      return
    }
    const { subject, headers, data, reply = '' } = message
    const pulled = { subject, headers, data, info, reply }
    const open = this.#open
    if (open === undefined) {
      this.#late = { ...this.#late, messages: [...this.#late.messages, pulled] }
      return
    }
    open.messages.push(pulled)
    if (open.messages.length >= open.request.batch) this.#end()
    else if (open.messages.length === 1) this.#limit(QUIET_MS, () => this.#quiet(open, 1))
  }

  #status({ subject, headers }: Msg): void {
    // Of a request that is over.
    if (subject !== `${this.#inbox}.${this.#number}`) return
    const { code = 0, description = '' } = headers ?? {}
    if (ENDS.includes(code)) this.#end()
    else if (code >= 400) {
      const text = code === 503 ? 'no consumer answers' : description
      this.interrupt(new JetStreamError(`the pull request ended: ${text} (${code})`, code))
    }
  }

  #quiet(open: Open, before: number): void {
    const now = open.messages.length
    if (now === before) this.#end()
    else this.#limit(QUIET_MS, () => this.#quiet(open, now))
  }

  /** What comes for it after all must not be taken for messages of a later request, which are this consumer's for longer. */
  #silent({ expiresMs }: PullRequest): void {
    this.close()
    this.interrupt(new CallTimeoutError('CONSUMER.MSG.NEXT', expiresMs + SLACK_MS))
  }

  #limit(afterMs: number, over: () => void): void {
    this.#open?.cancel()
    if (this.#open !== undefined) this.#open.cancel = this.#runtime.setTimer(over, afterMs)
  }

  #end(): void {
    const open = this.#open
    if (open === undefined) return
    this.#open = undefined
    open.cancel()
    const { messages, sentAtMs, resolve } = open
    this.#late = { messages: [], sentAtMs }
    resolve({ messages, sentAtMs })
  }
}
