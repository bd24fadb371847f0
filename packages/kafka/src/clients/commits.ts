import type { Runtime } from '@onceward/core'
import type { FetchedBatch, NextOffset } from './kafkajs.ts'

/** How long a broker that did not answer is not asked, unless it answers something else before. */
const QUIET_MS = 10_000

/**
 * Commits offsets: one request at a time, for all partitions that have come further meanwhile.
 *
 * So one question finds out that the broker is away, and spares it the others. kafkajs opens a connection for each, and
 * each that fails puts a listener on a socket of the broker that is dead already (`Connection.disconnect`), until Node
 * warns of a leak.
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

  /** Another consumer, with connections of its own: it does not wait for what its predecessor asked. */
  begin(): void {
    this.answered()
    this.#sending = Promise.resolve()
    this.#next = undefined
  }

  /** Commits how far the batch has come, and answers whether nothing is left to commit. Never rejects. */
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
      const next = batch.resolve(nowMs)
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
