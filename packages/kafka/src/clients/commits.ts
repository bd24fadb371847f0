import type { Runtime } from '@onceward/core'
import type { FetchedBatch, NextOffset } from './kafkajs.ts'

/** A broker that did not answer gets no commit for this long, unless it answers another request before. */
const QUIET_MS = 10_000

/**
 * Commits offsets: one request at a time, for all partitions that have progressed meanwhile.
 *
 * If the broker is down, only one request fails. kafkajs opens a connection for each request, and each failure adds a
 * listener to a dead socket (`Connection.disconnect`), until Node prints a false leak warning.
 */
export class Commits {
  failures = 0
  readonly #runtime: Runtime
  readonly #waiting = new Set<FetchedBatch>()
  #sending: Promise<unknown> = Promise.resolve()
  #next: Promise<void> | undefined
  #quietUntilMs = 0

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** The broker did not answer a moment ago. */
  get isQuiet(): boolean {
    return this.#runtime.monotonic() < this.#quietUntilMs
  }

  keepQuiet(): void {
    this.#quietUntilMs = this.#runtime.monotonic() + QUIET_MS
  }

  /** A fetch or a heartbeat was answered. */
  answered(): void {
    this.#quietUntilMs = 0
  }

  /** A new consumer has connections of its own and does not wait for requests of the one before. */
  begin(): void {
    this.answered()
    this.#sending = Promise.resolve()
    this.#next = undefined
  }

  /** Commits the progress of the batch, and returns whether nothing is left to commit. Never rejects. */
  async commit(batch: FetchedBatch): Promise<boolean> {
    this.#waiting.add(batch)
    this.#next ??= this.#sending.then(() => this.#send())
    await this.#next
    return batch.isCommitted
  }

  #send(): Promise<void> {
    const batches = [...this.#waiting]
    this.#waiting.clear()
    this.#next = undefined
    const sending = this.#ask(batches)
    this.#sending = sending
    return sending
  }

  async #ask(batches: readonly FetchedBatch[]): Promise<void> {
    const nowMs = this.#runtime.monotonic()
    const found = batches.flatMap((batch) => {
      const next = batch.uncommitted(nowMs)
      return next === undefined ? [] : [{ batch, next }]
    })
    const [first] = found
    if (first === undefined || this.isQuiet) return
    try {
      await first.batch.send(byTopic(found.map(({ next }) => next)))
      for (const { batch, next } of found) batch.committed(next)
    } catch (error) {
      const isRebalance = found.map(({ batch }) => batch.noteRebalance(error, nowMs)).some(Boolean)
      if (isRebalance) return
      this.failures += 1
      this.keepQuiet()
    }
  }
}

function byTopic(
  offsets: readonly NextOffset[],
): { topic: string; partitions: { partition: number; offset: string }[] }[] {
  const topics = new Map<string, { partition: number; offset: string }[]>()
  for (const { topic, partition, offset } of offsets) {
    const partitions = topics.get(topic) ?? []
    partitions.push({ partition, offset })
    topics.set(topic, partitions)
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions }))
}
