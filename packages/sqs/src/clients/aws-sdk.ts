import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  type QueueAttributeName,
  ReceiveMessageCommand,
  SendMessageCommand,
  type SendMessageCommandInput,
  type SQSClient,
} from '@aws-sdk/client-sqs'
import type { Runtime } from '@onceward/core'
import { CallTimeoutError } from '@onceward/core/adapter'
import { troubleOf } from '../errors.ts'
import { receiveAttributes } from '../options.ts'

/** What this package calls of an SQS client. Region, credentials, retries and sockets are the user's. */
export type SqsClient = Pick<SQSClient, 'send'>

/** SQS: entries of one batch request. */
export const ENTRIES = 10

export interface ReceiveRequest {
  readonly max: number
  readonly waitMs: number
  readonly visibilityMs: number
}

export interface VisibilityChange {
  readonly handle: string
  readonly seconds: number
}

/** An entry that SQS refused although the request itself was answered with 200. */
export interface RefusedEntry {
  readonly index: number
  /** True: the same request will be refused again. */
  readonly senderFault: boolean
  readonly code: string
}

export type QueueAttributes = Partial<Readonly<Record<QueueAttributeName, string>>>

/** The calls to one queue, each bounded in time; they reject with what the client threw. */
export interface Wire {
  receive(request: ReceiveRequest, signal: AbortSignal): Promise<readonly Message[]>
  /** At most {@link ENTRIES}. */
  remove(handles: readonly string[]): Promise<readonly RefusedEntry[]>
  /** At most {@link ENTRIES}. */
  changeVisibility(
    changes: readonly VisibilityChange[],
    budgetMs?: number,
  ): Promise<readonly RefusedEntry[]>
  send(input: SendMessageCommandInput): Promise<void>
  attributes(queueUrl: string): Promise<QueueAttributes>
}

const CALL_MS = 10_000
/** Beyond the long poll: a receive on a connection that went silent must not wait for ever. */
const RECEIVE_SLACK_MS = 10_000

export function createWire(client: SqsClient, queueUrl: string, runtime: Runtime): Wire {
  const bounded = bounds(runtime)
  return {
    receive: async ({ max, waitMs, visibilityMs }, signal) => {
      const command = new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: max,
        WaitTimeSeconds: Math.ceil(waitMs / 1_000),
        VisibilityTimeout: visibilityMs / 1_000,
        ...receiveAttributes,
      })
      const limits = { call: 'ReceiveMessage', budgetMs: waitMs + RECEIVE_SLACK_MS, outer: signal }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return output?.Messages ?? []
    },
    remove: async (handles) => {
      const entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }))
      const command = new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries })
      const limits = { call: 'DeleteMessageBatch', budgetMs: CALL_MS }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return refusedOf(output?.Failed)
    },
    changeVisibility: async (changes, budgetMs = CALL_MS) => {
      const entries = changes.map(({ handle, seconds }, index) => ({
        Id: String(index),
        ReceiptHandle: handle,
        VisibilityTimeout: seconds,
      }))
      const command = new ChangeMessageVisibilityBatchCommand({
        QueueUrl: queueUrl,
        Entries: entries,
      })
      const limits = { call: 'ChangeMessageVisibilityBatch', budgetMs }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return refusedOf(output?.Failed)
    },
    send: async (input) => {
      const command = new SendMessageCommand(input)
      const limits = { call: 'SendMessage', budgetMs: CALL_MS }
      await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
    },
    attributes: async (url) => {
      const command = new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] })
      const limits = { call: 'GetQueueAttributes', budgetMs: CALL_MS }
      const output = await bounded(limits, (abortSignal) => client.send(command, { abortSignal }))
      return output?.Attributes ?? {}
    },
  }
}

function refusedOf(
  failed:
    | readonly {
        readonly Id: string | undefined
        readonly SenderFault: boolean | undefined
        readonly Code: string | undefined
      }[]
    | undefined,
): readonly RefusedEntry[] {
  return (failed ?? []).map(({ Id, SenderFault, Code }) => ({
    index: Number(Id),
    senderFault: SenderFault ?? false,
    code: Code ?? 'unknown',
  }))
}

interface Limits {
  readonly call: string
  readonly budgetMs: number
  readonly outer?: AbortSignal | undefined
}

/** The answer or the end of the time, not only the signal: a client may not heed it. */
function bounds(runtime: Runtime) {
  return async <T>(limits: Limits, call: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const { budgetMs, outer } = limits
    const { promise: over, reject } = Promise.withResolvers<never>()
    over.catch(() => undefined)
    // By hand: AbortSignal.any() costs more than the rest of this function, once per request.
    const controller = new AbortController()
    const end = (reason: unknown): void => {
      controller.abort(reason)
      reject(reason)
    }
    const ended = (): void => end(outer?.reason)
    outer?.addEventListener('abort', ended, { once: true })
    if (outer?.aborted) ended()
    const late = (): void => end(new CallTimeoutError(limits.call, budgetMs))
    const cancel = runtime.setTimer(late, budgetMs)
    try {
      return await Promise.race([call(controller.signal), over])
    } finally {
      cancel()
      outer?.removeEventListener('abort', ended)
    }
  }
}

/** One entry for a batch request and how long trying again makes sense. */
export interface Entry {
  readonly handle: string
  readonly seconds: number
  /** Position in the queue, for those that must go in order. */
  readonly sequence: number
  /** On the monotonic clock: afterwards the message is visible again and the handle worthless. */
  readonly expiresAtMs: number
}

export type EntryAnswer =
  | { readonly kind: 'settled' }
  | { readonly kind: 'refused'; readonly code: string }

export interface GroupingOptions {
  readonly runtime: Runtime
  readonly call: (entries: readonly Entry[]) => Promise<readonly RefusedEntry[]>
  /** From the last message of a FIFO group to the first, one request after the other. */
  readonly lastFirst?: boolean | undefined
  /** How long the first entry waits for others, ms; later ones do not prolong it. */
  readonly windowMs?: number | undefined
}

interface Job {
  readonly entry: Entry
  readonly answer: (answer: EntryAnswer) => void
}

const WINDOW_MS = 5
const TRIES = 4
const RETRY_MS = 100

/**
 * Sends entries in batch requests of at most ten: at ten, or when the window of the first is over.
 *
 * Entries that SQS refused by its own fault are sent again at most three times while their message is hidden
 * (trap T21: a request answered with 200 may have failed in part).
 */
export class Grouping {
  readonly #options: GroupingOptions
  #jobs: Job[] = []
  #cancel: (() => void) | undefined

  constructor(options: GroupingOptions) {
    this.#options = options
  }

  add(entry: Entry): Promise<EntryAnswer> {
    return new Promise((answer) => {
      this.#jobs.push({ entry, answer })
      const { runtime, lastFirst, windowMs = WINDOW_MS } = this.#options
      if (this.#jobs.length >= ENTRIES && !lastFirst) this.#flush()
      else this.#cancel ??= runtime.setTimer(() => this.#flush(), windowMs)
    })
  }

  #flush(): void {
    this.#cancel?.()
    this.#cancel = undefined
    const jobs = this.#jobs
    this.#jobs = []
    if (this.#options.lastFirst) void this.#sendLastFirst(jobs)
    else void this.#send(jobs, 1)
  }

  async #sendLastFirst(jobs: Job[]): Promise<void> {
    jobs.sort((a, b) => b.entry.sequence - a.entry.sequence)
    for (let start = 0; start < jobs.length; start += ENTRIES) {
      await this.#send(jobs.slice(start, start + ENTRIES), 1)
    }
  }

  async #send(jobs: readonly Job[], attempt: number): Promise<void> {
    const refused = await this.#call(jobs)
    const again: Job[] = []
    const pauseMs = RETRY_MS * 2 ** (attempt - 1) * (1 + this.#options.runtime.random())
    for (const [index, job] of jobs.entries()) {
      const refusal = refused.get(index)
      if (refusal === undefined) job.answer({ kind: 'settled' })
      else if (this.#mayRetry(job, refusal, { attempt, pauseMs })) again.push(job)
      else job.answer({ kind: 'refused', code: refusal.code })
    }
    if (again.length === 0) return
    await new Promise<void>((resolve) => void this.#options.runtime.setTimer(resolve, pauseMs))
    await this.#send(again, attempt + 1)
  }

  #mayRetry(
    { entry }: Job,
    refusal: RefusedEntry,
    { attempt, pauseMs }: { readonly attempt: number; readonly pauseMs: number },
  ): boolean {
    const hiddenStill = this.#options.runtime.monotonic() + pauseMs < entry.expiresAtMs
    return !refusal.senderFault && attempt < TRIES && hiddenStill
  }

  async #call(jobs: readonly Job[]): Promise<ReadonlyMap<number, RefusedEntry>> {
    try {
      const refused = await this.#options.call(jobs.map(({ entry }) => entry))
      return new Map(refused.map((entry) => [entry.index, entry]))
    } catch (error) {
      const { kind, text } = troubleOf(error)
      const senderFault = kind === 'queue-missing' || kind === 'denied' || kind === 'handle'
      return new Map(jobs.map((_, index) => [index, { index, senderFault, code: text }]))
    }
  }
}
