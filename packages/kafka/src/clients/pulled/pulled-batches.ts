import { endsWithin, type GuardPort, pauseOf } from '@onceward/core/adapter'
import { nameOf, type Partition } from '../../offsets.ts'
import type { Settings } from '../../options.ts'
import type { Fetched } from '../port.ts'
import { Suspicion } from '../suspicion.ts'
import { PulledBatch, type Start } from './pulled-batch.ts'
import { PulledCommits, type ReadingConsumer } from './pulled-commits.ts'

/** How often progress is committed. */
const COMMIT_MS = 250
/** For the unsettled records of all partitions together. At this bound nothing more is fetched. */
const MOST_BYTES = 64 * 1_024 * 1_024
/** For what is stored when partitions go. The next owner reads again what is not. */
const STORE_MS = 1_000

export interface PulledBatchesOptions {
  readonly port: GuardPort
  readonly settings: Pick<Settings, 'graceMs'>
  readonly onRunnable: () => void
  /** With `identity: 'offsets'`: another member has claimed a partition of this one. */
  readonly onFenced?: (() => void) | undefined
}

/** The unsettled records of a consumer that is asked for them, from the fetch to the commit of their offset. */
export class PulledBatches {
  clusterId: string | undefined
  readonly #options: PulledBatchesOptions
  readonly #commits: PulledCommits
  /** One for each partition of this member. */
  readonly #owned = new Map<string, PulledBatch>()
  /** Batches that lost their partition while handlers run. */
  readonly #ending = new Set<PulledBatch>()
  readonly #suspicion = new Suspicion(4 * COMMIT_MS)
  readonly #idle = Promise.withResolvers<void>()
  #consumer: ReadingConsumer | undefined
  #isHeld = false
  #isStopping = false
  #stopTicking: () => void = () => undefined
  /** Resolve when the records of a batch have ended. */
  readonly #waiting = new Map<PulledBatch, () => void>()

  constructor(options: PulledBatchesOptions) {
    this.#options = options
    this.#commits = new PulledCommits(options.port)
  }

  get open(): readonly PulledBatch[] {
    return [...this.#owned.values()].filter(({ progress }) => progress.unsettled > 0)
  }

  /** True during a rebalance: nothing may start. */
  get isHeld(): boolean {
    return this.#isHeld
  }

  /** Soon after an assignment another member may have started the records. On the monotonic clock. */
  get suspectUntilMs(): number {
    return this.#suspicion.untilMs
  }

  get settleFailures(): number {
    return this.#commits.failures
  }

  get notice(): string | undefined {
    const isCommitted = [...this.#owned.values()].every(
      ({ uncommitted }) => uncommitted === undefined,
    )
    return isCommitted ? undefined : this.#commits.notice
  }

  get inFlight(): number {
    return this.#all.reduce((sum, { inFlight }) => sum + inFlight, 0)
  }

  /** The partitions of this member. */
  get owned(): readonly PulledBatch[] {
    return [...this.#owned.values()]
  }

  owns(partition: Partition): boolean {
    return this.#owned.has(nameOf(partition))
  }

  /** Nothing of the partition is in hand. */
  isIdle(partition: Partition): boolean {
    return this.#owned.get(nameOf(partition))?.progress.isComplete !== false
  }

  /** What is in hand runs, and nothing more is taken. */
  refuse(partitions: readonly Partition[]): void {
    for (const batch of this.#of(partitions)) {
      batch.isRefused = true
      batch.isPaused = true
    }
    this.#consumer?.pause(partitions)
  }

  /** A new consumer starts. */
  attach(consumer: ReadingConsumer): void {
    this.left()
    this.#consumer = consumer
    this.#commits.begin(consumer)
    this.#tick()
  }

  /** The member has these partitions from now on, and goes on with the others. */
  assigned(starts: readonly Start[]): void {
    const nowMs = this.#nowMs
    const { lanesAreUsers } = this.#options.port.settings
    this.#suspicion.assigned(
      nowMs,
      starts.every(({ fence }) => fence?.isFirst === true),
    )
    for (const start of starts) {
      const before = this.#owned.get(nameOf(start))
      if (before !== undefined) this.#lose(before)
      const batch = new PulledBatch(start, {
        ...{ clusterId: this.clusterId, nowMs },
        sharedLane: lanesAreUsers ? '' : undefined,
      })
      if (this.#isStopping) batch.stop.abort()
      this.#owned.set(nameOf(start), batch)
    }
    this.held(false)
  }

  held(isHeld: boolean): void {
    this.#isHeld = isHeld
    if (!isHeld) this.#options.onRunnable()
  }

  answered(): void {
    this.#commits.answered()
  }

  /** Takes records, and pauses partitions that have many. */
  give(fetched: readonly Fetched[]): void {
    const nowMs = this.#nowMs
    for (const each of fetched) {
      const batch = this.#owned.get(nameOf(each))
      // Otherwise a drain would read the rest of the log, for nothing.
      if (this.#isStopping) this.#consumer?.pause([each])
      if (batch === undefined || batch.isRefused || this.#isStopping) continue
      if (!batch.isFirst) this.#suspicion.fetched(batch, nowMs)
      batch.append(each)
    }
    if (fetched.length === 0) return
    this.#pauseFull()
    this.#options.onRunnable()
  }

  /** Lets running handlers end and commits what is done, in bounded time. Then the partitions are gone. */
  async revoked(partitions: readonly Partition[]): Promise<void> {
    const batches = this.#of(partitions)
    for (const batch of batches) batch.stop.abort()
    const ended = Promise.all(batches.map((batch) => this.#ended(batch)))
    const { promise, resolve } = Promise.withResolvers<void>()
    const { port, settings } = this.#options
    const cancel = port.runtime.setTimer(resolve, settings.graceMs, { keepAlive: false })
    await Promise.race([ended, promise])
    cancel()
    await Promise.all([this.#commits.commit(batches), this.#storeNow(batches)])
    for (const batch of batches) this.#lose(batch, 'abort')
  }

  /** Other members may have the partitions. What runs gets some seconds to end, and nothing is committed. */
  lost(partitions: readonly Partition[]): void {
    const { port, settings } = this.#options
    for (const batch of this.#of(partitions)) {
      this.#lose(batch)
      if (batch.isOver) continue
      const abort = (): void => batch.abort.abort()
      port.runtime.setTimer(abort, settings.graceMs, { keepAlive: false })
    }
  }

  /** The consumer is over, and its partitions go to other members. */
  left(): void {
    this.#stopTicking()
    this.#consumer = undefined
    this.lost(this.owned)
    this.#isHeld = false
  }

  /** Starts nothing more. */
  clear(): void {
    this.#isStopping = true
    for (const batch of this.#owned.values()) batch.stop.abort()
    this.#settleIdle()
  }

  /** Resolves when nothing runs and every offset was committed, once {@link clear} was called. Never rejects. */
  ended(): Promise<void> {
    return this.#idle.promise
  }

  /** Commits the progress of the batch, and returns whether nothing is left to commit. Never rejects. */
  commit(batch: PulledBatch): Promise<boolean> {
    return this.#commits.commit([batch])
  }

  /** Records of the batch were settled or postponed. */
  met(batch: PulledBatch): void {
    if (!(batch.settled() || batch.isLost)) this.#options.onFenced?.()
    if (batch.isPaused) this.#resume(batch)
    if (batch.progress.running === 0) this.#waiting.get(batch)?.()
    if (batch.isOver) this.#ending.delete(batch)
    if (this.#isStopping) this.#settleIdle()
  }

  /** Aborts running handlers. */
  abort(): void {
    for (const batch of this.#all) batch.abort.abort()
  }

  get #all(): readonly PulledBatch[] {
    return [...this.#owned.values(), ...this.#ending]
  }

  get #nowMs(): number {
    return this.#options.port.runtime.monotonic()
  }

  /** The consumer is paused by hand: nothing is received. */
  get #isShut(): boolean {
    const pause = pauseOf(this.#options.port)
    return pause?.pause !== undefined
  }

  #of(partitions: readonly Partition[]): readonly PulledBatch[] {
    return partitions.flatMap((each) => this.#owned.get(nameOf(each)) ?? [])
  }

  #lose(batch: PulledBatch, running?: 'abort'): void {
    batch.lose()
    if (this.#owned.get(nameOf(batch)) === batch) this.#owned.delete(nameOf(batch))
    if (batch.progress.running > 0) this.#ending.add(batch)
    if (running === 'abort') batch.abort.abort()
    this.#waiting.get(batch)?.()
    if (this.#isStopping) this.#settleIdle()
  }

  async #ended(batch: PulledBatch): Promise<void> {
    if (batch.progress.running === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.set(batch, resolve)
    await promise
    this.#waiting.delete(batch)
  }

  #pauseFull(): void {
    let bytes = 0
    for (const { progress } of this.#owned.values()) bytes += progress.bytes
    const full = [...this.#owned.values()].filter(
      ({ isPaused, progress }) =>
        !(isPaused || (progress.hasRoom && bytes < MOST_BYTES && !this.#isShut)),
    )
    for (const batch of full) batch.isPaused = true
    if (full.length > 0) this.#consumer?.pause(full)
  }

  #resume(batch: PulledBatch): void {
    if (!batch.hasFew || batch.isLost || batch.isRefused || this.#isShut) return
    let bytes = 0
    for (const { progress } of this.#owned.values()) bytes += progress.bytes
    if (bytes >= MOST_BYTES) return
    batch.isPaused = false
    this.#consumer?.resume([batch])
  }

  #tick(): void {
    const { runtime } = this.#options.port
    const tick = async (): Promise<void> => {
      const { owned } = this
      if (this.#isShut) this.#pauseFull()
      for (const batch of owned) {
        if (batch.isPaused) this.#resume(batch)
        void this.#store(batch, 'if-quiet')
      }
      await this.#commits.commit(owned)
      await this.#commits.compare(owned)
      if (this.#stopTicking === stop) this.#tick()
    }
    const stop = runtime.setTimer(() => void tick(), COMMIT_MS, { keepAlive: false })
    this.#stopTicking = stop
  }

  /** When nothing runs any more, what is done is committed and stored once more. */
  #settleIdle(): void {
    if (this.#all.some(({ progress }) => progress.running > 0)) return
    const { owned } = this
    const ending = Promise.all([this.#commits.commit(owned), this.#storeNow(owned)])
    void ending.then(() => this.#idle.resolve())
  }

  #storeNow(batches: readonly PulledBatch[]): Promise<boolean> {
    const storing = Promise.all(batches.map((batch) => this.#store(batch, 'now')))
    return endsWithin(this.#options.port.runtime, storing, STORE_MS)
  }

  /** Never rejects. */
  async #store(batch: PulledBatch, when: 'now' | 'if-quiet'): Promise<void> {
    if (this.#options.port.availability().kind === 'down') return
    try {
      await batch.store(when)
    } catch {
      // The next tick tries again.
    }
    if (!(batch.isLost || batch.settled())) this.#options.onFenced?.()
  }
}
