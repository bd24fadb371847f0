import type { GuardPort } from '@onceward/core/adapter'
import type { ConsumerGroupJoinEvent, EachBatchPayload } from 'kafkajs'
import { Assignment, type Partition, Pauses, type Pausing } from '../../offsets.ts'
import type { Settings } from '../../options.ts'
import type { Fences } from '../fences.ts'
import { Suspicion } from '../suspicion.ts'
import { Commits } from './commits.ts'
import { FetchedBatch, fetchedAt, refuseIfRebalancing } from './fetched-batch.ts'
import { OpenBatches } from './open-batches.ts'

/** Before a partition is claimed again that could not be claimed. */
const CLAIM_AGAIN_MS = 1_000
/** How often a batch sends heartbeats, commits, and checks whether its callback should return to kafkajs. */
const BEAT_MS = 250
/** Between two commits of a partition whose records take long; checked with each beat. */
const COMMIT_MS = 250
/** When a batch has settled nothing for this long, other partitions no longer wait for it. */
const STUCK_MS = 250
/** Other partitions wait at most this long for a batch that has many records. */
const LONG_MS = 2_000

type Joined = Pick<ConsumerGroupJoinEvent['payload'], 'memberId' | 'memberAssignment'>

export interface PartitionBatchesOptions {
  readonly port: GuardPort
  readonly settings: Settings
  /** With `identity: 'offsets'`. */
  readonly fences?: Fences | undefined
  /** Called when records may run now. */
  readonly onRunnable: () => void
}

/** The unsettled records, from the fetch to the commit of their offset. */
export class PartitionBatches {
  clusterId: string | undefined
  /** By name. */
  topicIds: ReadonlyMap<string, string> = new Map()
  readonly #options: PartitionBatchesOptions
  readonly #commits: Commits
  readonly #assignment = new Assignment()
  readonly #open = new OpenBatches()
  /** Batches that lost their partition while handlers run. */
  readonly #ending = new Set<FetchedBatch>()
  #pauses: Pauses | undefined
  #isHeld = false
  #isStopping = false
  readonly #suspicion = new Suspicion(COMMIT_MS + BEAT_MS)
  readonly #idle = Promise.withResolvers<void>()

  constructor(options: PartitionBatchesOptions) {
    this.#options = options
    this.#commits = new Commits(options.port)
  }

  /** Batches with records to run, in the order of their turn. */
  get open(): readonly FetchedBatch[] {
    return this.#open.all
  }

  /** True during a rebalance: nothing may start. */
  get isHeld(): boolean {
    return this.#isHeld
  }

  /** Soon after an assignment another member may have started the records. Infinite before the first one. */
  get suspectUntilMs(): number {
    return this.#suspicion.untilMs
  }

  get settleFailures(): number {
    return this.#commits.failures
  }

  /** What is processed and not committed; undefined if nothing waits for a commit. */
  get notice(): string | undefined {
    return this.#open.all.every(({ isCommitted }) => isCommitted) ? undefined : this.#commits.notice
  }

  /** Records that were fetched and are not settled. */
  get inFlight(): number {
    return this.#all.reduce((sum, { inFlight }) => sum + inFlight, 0)
  }

  /**
   * A new consumer starts: batches of the one before are lost, even if that one has not noticed yet. The answer is for
   * `consumer.run`. It rejects only with an error that makes kafkajs rejoin.
   */
  attach(consumer: Pausing): (payload: EachBatchPayload) => Promise<void> {
    this.left()
    const pauses = new Pauses(consumer)
    this.#pauses = pauses
    return async (payload) => {
      if (this.#pauses === pauses && !this.#isStopping) await this.#eachBatch(payload)
      else pauses.pause(payload.batch)
    }
  }

  /** The consumer joined its group: it owns these partitions now, and no others. */
  joined({ memberId, memberAssignment }: Joined): void {
    const goesOn = this.#assignment.join(memberId, memberAssignment)
    this.#suspicion.assigned(this.#nowMs)
    this.#options.fences?.assigned((each) => goesOn && this.#assignment.has(each))
    for (const batch of this.#open.all) {
      batch.rebalance = undefined
      if (!(goesOn && this.#assignment.has(batch) && batch.position())) this.#lose(batch)
    }
    for (const batch of this.#ending) if (!this.#assignment.has(batch)) batch.abort.abort()
    for (const each of this.#pauses?.all ?? []) this.#endPause(each)
    this.#isHeld = false
    this.#options.onRunnable()
  }

  /** The broker has answered a fetch or a heartbeat. */
  answered(): void {
    this.#commits.answered()
  }

  /** A rebalance has begun: unstarted records wait for the next assignment. */
  rebalancing(): void {
    this.#isHeld = true
  }

  ownedOf(topic: string): readonly number[] {
    return this.#assignment.ownedOf(topic)
  }

  /** The position is being reset: the fetched records are dropped, and none come until the answer is called. */
  rewind(partition: Partition): () => void {
    const [batch, pauses] = [this.#open.of(partition), this.#pauses]
    if (batch !== undefined) this.#lose(batch)
    pauses?.pause(partition)
    return () => pauses?.resume(partition)
  }

  /** The consumer left its group, and its positions are gone. */
  left(): void {
    this.#assignment.leave()
    for (const batch of this.#open.all) this.#lose(batch)
    this.#isHeld = false
    this.#commits.begin()
  }

  /** Starts nothing more: unstarted records are left to the next member. */
  clear(): void {
    this.#isStopping = true
    for (const batch of this.#open.all) {
      batch.stop.abort()
      this.met(batch)
    }
    this.#settleIdle()
  }

  /** Resolves when nothing runs and every offset was committed, once {@link clear} was called. Never rejects. */
  ended(): Promise<void> {
    return this.#idle.promise
  }

  /** Commits the progress of the batch, and returns whether nothing is left to commit. Never rejects. */
  commit(batch: FetchedBatch): Promise<boolean> {
    return this.#commits.commit(batch)
  }

  /** Aborts running handlers. */
  abort(): void {
    for (const batch of this.#all) batch.abort.abort()
  }

  get #all(): readonly FetchedBatch[] {
    return [...this.#open.all, ...this.#ending]
  }

  get #nowMs(): number {
    return this.#options.port.runtime.monotonic()
  }

  async #eachBatch(payload: EachBatchPayload): Promise<void> {
    // kafkajs still calls back with batches from before a rebalance; their partition may be lost (K7).
    await refuseIfRebalancing(payload, this.#isHeld)
    // Stale: fetched before a seek that is not carried out yet.
    if (this.#isStopping || payload.isStale() || !this.#assignment.has(payload.batch)) return
    const { fences } = this.#options
    if (fences !== undefined && !(await this.#claim(fences, payload))) return
    const before = this.#open.of(payload.batch)
    const batch = this.#continued(payload) ?? this.#take(payload, before !== undefined)
    if (batch.position()) this.#options.onRunnable()
    else this.#lose(batch)
    this.met(batch)
    await this.#attend(batch)
    if (batch.rebalance !== undefined && !batch.isLost) throw batch.rebalance.error
  }

  /** Whether the records are read: the partition is claimed, and read from where the inbox says. */
  async #claim(fences: Fences, payload: EachBatchPayload): Promise<boolean> {
    const { batch } = payload
    const topic = { clusterId: this.clusterId, topicId: this.topicIds.get(batch.topic) }
    const answer = await fences.at(batch, topic, fetchedAt(batch))
    if (this.#isStopping || payload.isStale() || !this.#assignment.has(batch)) return false
    if (answer.kind === 'read') return true
    if (answer.kind === 'seek') fences.seek(batch, answer.offset)
    else {
      const resume = this.rewind(batch)
      this.#options.port.runtime.setTimer(resume, CLAIM_AGAIN_MS, { keepAlive: false })
    }
    return false
  }

  /** The open batch of the partition with the records added, if they follow. */
  #continued(payload: EachBatchPayload): FetchedBatch | undefined {
    const batch = this.#open.of(payload.batch)
    if (batch?.isContinuedBy(payload)) batch.append(payload, this.#nowMs)
    // The position was set back, so the unsettled records come again.
    else if (batch !== undefined) this.#lose(batch)
    return batch?.isLost ? undefined : batch
  }

  /** @param isSetBack - The position was set back, and the offset that was committed may be a higher one. */
  #take(payload: EachBatchPayload, isSetBack: boolean): FetchedBatch {
    const batch = new FetchedBatch(payload, {
      ...{ clusterId: this.clusterId, nowMs: this.#nowMs, isSetBack },
      fence: this.#options.fences?.of(payload.batch),
      sharedLane: this.#options.port.settings.lanesAreUsers ? '' : undefined,
    })
    this.#suspicion.fetched(batch, this.#nowMs)
    this.#open.add(batch)
    this.#beat(batch)
    return batch
  }

  /** Keeps kafkajs waiting for the batch until it is done or others should no longer wait for it. */
  async #attend(batch: FetchedBatch): Promise<void> {
    await batch.released
    batch.detach()
    // Paused before the commit, because the commit takes time and kafkajs must not fetch past the bound meanwhile.
    const hasRoom = batch.progress.isComplete || this.#open.hasRoom(batch)
    if (!(batch.isLost || hasRoom)) this.#pauses?.pause(batch)
    await this.#finish(batch)
  }

  #beat(batch: FetchedBatch): void {
    const { runtime } = this.#options.port
    const beat = (): void => {
      this.#beat(batch)
      void this.#tick(batch)
    }
    batch.stopBeating = runtime.setTimer(beat, BEAT_MS, { keepAlive: false })
  }

  async #tick(batch: FetchedBatch): Promise<void> {
    const nowMs = this.#nowMs
    if (batch.isStopped) {
      batch.stop.abort()
      this.met(batch)
    }
    if (this.#commits.asking === undefined) await this.#ask(batch, nowMs)
    // Only if the callback will reject with that error, because only the following join ends the hold.
    if (batch.rebalance !== undefined && batch.attached && !batch.isLost) this.#isHeld = true
    if (batch.attached && !this.#shouldStay(batch, nowMs)) batch.release()
    this.#endPause(batch)
  }

  async #ask(batch: FetchedBatch, nowMs: number): Promise<void> {
    this.#commits.asking = batch
    if (batch.attached && (await batch.heartbeat(nowMs)) === 'failed') this.#commits.keepQuiet()
    else if (nowMs - batch.lastCommitAtMs >= COMMIT_MS) await this.#finish(batch)
    if (this.#commits.asking === batch) this.#commits.asking = undefined
  }

  #shouldStay(batch: FetchedBatch, nowMs: number): boolean {
    const { progress, rebalance } = batch
    const { graceMs, partitionsConsumedConcurrently } = this.#options.settings
    if (rebalance !== undefined) return progress.running > 0 && nowMs - rebalance.atMs < graceMs
    // A consumer that stops waits only for its callbacks before it leaves the group.
    if (batch.isStopped || this.#open.busy(nowMs) >= partitionsConsumedConcurrently) return true
    // If there is no other partition to fetch, kafkajs would only sleep for `maxWaitTimeInMs`.
    if (!progress.isDeferred(nowMs) && this.#open.full >= this.#assignment.size) return true
    return nowMs - batch.lastKnownAtMs < STUCK_MS && nowMs - batch.openedAtMs < LONG_MS
  }

  /** Records of the batch were fetched, settled or postponed. */
  met(batch: FetchedBatch): void {
    const { fences } = this.#options
    if (fences !== undefined) {
      batch.settled()
      fences.look(batch)
    }
    if (batch.isOver && this.#ending.delete(batch)) this.#settleIdle()
    else if (batch.attached) {
      if (batch.isOver || batch.progress.isDeferred(this.#nowMs)) batch.release()
    } else if (batch.isOver) void this.#finish(batch)
  }

  /** Commits how far a batch has come, and ends it if kafkajs does not wait for it and nothing of it runs. */
  async #finish(batch: FetchedBatch): Promise<void> {
    const isCommitted = await this.commit(batch)
    // Other records may have been fetched during the commit.
    if (!batch.isOver) return
    // A failed commit is repeated at a later beat. Otherwise it would wait until the partition has other records.
    if (isCommitted || this.#isStopping || batch.isStopped) this.#close(batch)
  }

  #lose(batch: FetchedBatch): void {
    batch.lose()
    batch.stopBeating()
    this.#open.remove(batch)
    if (batch.progress.running > 0) this.#ending.add(batch)
    batch.release()
    this.#settleIdle()
  }

  #close(batch: FetchedBatch): void {
    batch.stopBeating()
    this.#open.remove(batch)
    this.#endPause(batch)
    this.#settleIdle()
  }

  /** Of one partition: all together, at each beat of each, would block the process where there are hundreds. */
  #endPause(partition: Partition): void {
    const isToStay = this.#isStopping || this.#open.isFull(partition)
    if (!(isToStay && this.#assignment.has(partition))) this.#pauses?.end(partition)
  }

  #settleIdle(): void {
    if (this.#isStopping && this.#all.length === 0) this.#idle.resolve()
  }
}
