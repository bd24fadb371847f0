import type { GuardPort } from '@onceward/core/adapter'
import { classifyError } from '../../errors.ts'
import type { FetchedBatch, NextOffset } from './fetched-batch.ts'

/** A broker that did not answer gets no commit for this long, unless it answers another request before. */
const QUIET_MS = 10_000

const FIX =
  'if the broker can be reached, allow this client to Read the group and the topics. Until offsets are committed, ' +
  'their records are delivered again after a restart or a rebalance, as duplicates'

/**
 * Commits offsets: one request at a time, for all partitions that have progressed meanwhile.
 *
 * If the broker is down, only one request fails. kafkajs opens a connection for each request, and each failure adds a
 * listener to a dead socket (`Connection.disconnect`), until Node prints a false leak warning.
 */
export class Commits {
  failures = 0
  /** Has a heartbeat or a commit of its own under way. One at a time: if it fails, the others are not tried. */
  asking: FetchedBatch | undefined
  readonly #port: Pick<GuardPort, 'logger' | 'runtime' | 'settings'>
  readonly #waiting = new Set<FetchedBatch>()
  #sending: Promise<unknown> = Promise.resolve()
  #next: Promise<void> | undefined
  #quietUntilMs = 0
  /** Why the last commit failed; undefined after one that succeeded. */
  #refusal: string | undefined

  constructor(port: Pick<GuardPort, 'logger' | 'runtime' | 'settings'>) {
    this.#port = port
  }

  /** For `health()`: why offsets are not committed. */
  get notice(): string | undefined {
    return this.#refusal && `offsets are not committed: ${this.#refusal}`
  }

  /** The broker did not answer a moment ago. */
  get isQuiet(): boolean {
    return this.#port.runtime.monotonic() < this.#quietUntilMs
  }

  keepQuiet(): void {
    this.#quietUntilMs = this.#port.runtime.monotonic() + QUIET_MS
  }

  /** A fetch or a heartbeat was answered. */
  answered(): void {
    this.#quietUntilMs = 0
  }

  /**
   * The consumer has ended, and a new one does not wait for its requests: they are never answered if kafkajs closes
   * their connection while it hangs.
   */
  begin(): void {
    this.answered()
    this.asking = undefined
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
    const nowMs = this.#port.runtime.monotonic()
    const found = batches.flatMap((batch) => {
      const next = batch.uncommitted(nowMs)
      return next === undefined ? [] : [{ batch, next }]
    })
    const [first] = found
    if (first === undefined || this.isQuiet) return
    try {
      await first.batch.send(byTopic(found.map(({ next }) => next)))
      for (const { batch, next } of found) batch.committed(next)
      this.#succeeded()
    } catch (error) {
      const isRebalance = found.map(({ batch }) => batch.noteRebalance(error, nowMs)).some(Boolean)
      if (isRebalance) return
      this.failures += 1
      this.keepQuiet()
      this.#failed(error, new Set(found.map(({ next }) => next.topic)))
    }
  }

  /** An outage is logged when it begins or changes, and kept when a new consumer follows. */
  #failed(error: unknown, topics: ReadonlySet<string>): void {
    const { logger, settings } = this.#port
    const reason = classifyError(error).text
    const isNew = this.#refusal !== reason
    this.#refusal = reason
    const fields = { consumer: settings.consumer, topics: [...topics], reason, fix: FIX }
    if (isNew) logger.warn(fields, 'offsets cannot be committed')
  }

  #succeeded(): void {
    if (this.#refusal === undefined) return
    this.#refusal = undefined
    const { logger, settings } = this.#port
    logger.info({ consumer: settings.consumer }, 'offsets are committed again')
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
