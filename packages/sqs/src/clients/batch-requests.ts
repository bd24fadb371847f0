import type { Runtime } from '@onceward/core/ports'
import { ENTRIES, type RefusedEntry } from '../client.ts'
import { classifyError } from '../errors.ts'

/** One entry of a batch request. */
export interface Entry {
  readonly handle: string
  readonly seconds: number
  /** Position in the queue, for entries that must go in order. */
  readonly sequence: number
  /** On the monotonic clock. From then on the message may be visible again, and the entry is not tried again. */
  readonly expiresAtMs: number
}

export type EntryAnswer =
  | { readonly kind: 'settled' }
  | { readonly kind: 'refused'; readonly code: string }

export interface BatchRequestsOptions {
  readonly runtime: Runtime
  readonly call: (entries: readonly Entry[]) => Promise<readonly RefusedEntry[]>
  /** Sends the last message first, one request after the other; a FIFO group then stays in order. */
  readonly lastFirst?: boolean | undefined
  /** Milliseconds that the first entry waits for others. */
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
 * Gathers entries into batch requests of at most ten. A request is sent when it is full, or when its first entry has
 * waited for the window.
 *
 * SQS may answer a request with 200 and refuse some of its entries (trap T21). Entries that it refused by its own
 * fault are sent again, at most three times and only while their message is hidden.
 */
export class BatchRequests {
  readonly #options: BatchRequestsOptions
  #jobs: Job[] = []
  #cancel: (() => void) | undefined

  constructor(options: BatchRequestsOptions) {
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
    const isStillHidden = this.#options.runtime.monotonic() + pauseMs < entry.expiresAtMs
    return !refusal.senderFault && attempt < TRIES && isStillHidden
  }

  async #call(jobs: readonly Job[]): Promise<ReadonlyMap<number, RefusedEntry>> {
    try {
      const refused = await this.#options.call(jobs.map(({ entry }) => entry))
      return new Map(refused.map((entry) => [entry.index, entry]))
    } catch (error) {
      const { kind, text } = classifyError(error)
      const senderFault = kind === 'queue-missing' || kind === 'denied' || kind === 'handle'
      return new Map(jobs.map((_, index) => [index, { index, senderFault, code: text }]))
    }
  }
}
