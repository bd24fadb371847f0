import type { GuardPort } from '@onceward/core/adapter'
import { classifyError } from '../../errors.ts'
import { nameOf } from '../../offsets.ts'
import type { Position, PulledConsumer } from '../port.ts'
import type { PulledBatch } from './pulled-batch.ts'

/** A broker that did not answer gets no commit for this long, unless it answers another request before. */
const QUIET_MS = 10_000
/** How often the offsets of the group are compared with what was committed. */
const COMPARE_MS = 10_000

const FIX =
  'if the broker can be reached, allow this client to Read the group and the topics. Until offsets are committed, ' +
  'their records are delivered again after a restart or a rebalance, as duplicates'

/** What is done with a consumer whose records are in hand. */
export interface ReadingConsumer extends Pick<PulledConsumer, 'commit' | 'pause' | 'resume'> {
  /** Left out if it cannot ask for the offsets of its group. */
  readonly committed?: PulledConsumer['committed']
}

/** Commits offsets: one request at a time, for all partitions that have progressed meanwhile. */
export class PulledCommits {
  failures = 0
  readonly #port: Pick<GuardPort, 'logger' | 'runtime' | 'settings'>
  #consumer: ReadingConsumer | undefined
  #sending: Promise<void> = Promise.resolve()
  #quietUntilMs = 0
  #compareAtMs = 0
  /** Why the last commit failed; undefined after one that succeeded. */
  #refusal: string | undefined

  constructor(port: Pick<GuardPort, 'logger' | 'runtime' | 'settings'>) {
    this.#port = port
  }

  /** For `health()`: why offsets are not committed. */
  get notice(): string | undefined {
    return this.#refusal && `offsets are not committed: ${this.#refusal}`
  }

  /** A new consumer does not wait for requests of the one before. */
  begin(consumer: ReadingConsumer): void {
    this.#consumer = consumer
    this.#sending = Promise.resolve()
    this.#compareAtMs = this.#nowMs + COMPARE_MS
    this.answered()
  }

  answered(): void {
    this.#quietUntilMs = 0
  }

  /** Returns whether nothing of these batches is left to commit. Never rejects. */
  async commit(batches: readonly PulledBatch[]): Promise<boolean> {
    const sending = this.#sending.then(() => this.#send(batches))
    this.#sending = sending
    await sending
    return batches.every(({ uncommitted }) => uncommitted === undefined)
  }

  async #send(batches: readonly PulledBatch[]): Promise<void> {
    const consumer = this.#consumer
    const found = batches.flatMap((batch) => {
      const position = batch.uncommitted
      return position === undefined ? [] : [{ batch, position }]
    })
    if (consumer === undefined || found.length === 0 || this.#nowMs < this.#quietUntilMs) return
    const positions = found.map(({ position }) => position)
    try {
      await consumer.commit(positions)
      for (const { batch, position } of found) batch.noteCommitted(position.offset)
      this.#succeeded()
    } catch (error) {
      // The client rejoins by itself, and tells which partitions remain.
      if (consumer === this.#consumer && classifyError(error).kind !== 'rebalance') {
        this.#failed(error, positions)
      }
    }
  }

  /** A commit may have been answered and not carried out. Never rejects. */
  async compare(batches: readonly PulledBatch[]): Promise<void> {
    const consumer = this.#consumer
    if (consumer?.committed === undefined || this.#nowMs < this.#compareAtMs) return
    this.#compareAtMs = this.#nowMs + COMPARE_MS
    const known = new Map(batches.map((batch) => [batch, batch.committed]))
    try {
      const found = await consumer.committed(batches)
      const offsets = new Map(found.map((each) => [nameOf(each), each.offset]))
      for (const [batch, committed] of known) {
        const offset = offsets.get(nameOf(batch))
        if (committed === undefined || (offset ?? -1n) >= committed) continue
        batch.noteCommitted(offset)
        const { topic, partition } = batch
        const fields = { topic, partition, committed: String(committed), found: String(offset) }
        this.#port.logger.warn(
          fields,
          'the group has a lower offset than was committed; committing again',
        )
      }
    } catch {
      // Compared again later.
    }
  }

  get #nowMs(): number {
    return this.#port.runtime.monotonic()
  }

  /** An outage is logged when it begins or changes. */
  #failed(error: unknown, positions: readonly Position[]): void {
    this.failures += 1
    this.#quietUntilMs = this.#nowMs + QUIET_MS
    const { logger, settings } = this.#port
    const reason = classifyError(error).text
    const isNew = this.#refusal !== reason
    this.#refusal = reason
    const topics = [...new Set(positions.map(({ topic }) => topic))]
    const fields = { consumer: settings.consumer, topics, reason, fix: FIX }
    if (isNew) logger.warn(fields, 'offsets cannot be committed')
  }

  #succeeded(): void {
    if (this.#refusal === undefined) return
    this.#refusal = undefined
    const { logger, settings } = this.#port
    logger.info({ consumer: settings.consumer }, 'offsets are committed again')
  }
}
