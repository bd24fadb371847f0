import type { PartitionFence } from '@onceward/core/ports'
import type { EachBatchPayload, KafkaMessage, OffsetsByTopicPartition } from 'kafkajs'
import { rebalanceIn } from '../../errors.ts'
import { type InHand, type Partition, Progress } from '../../offsets.ts'
import type { FetchedAt } from '../fences.ts'
import { RecordInHand } from '../record-in-hand.ts'
import { ownBytes } from './own-bytes.ts'

export interface FetchedOptions {
  readonly clusterId: string | undefined
  /** The lane of all records if the guard finds lanes itself; otherwise each record's key is its lane. */
  readonly sharedLane: string | undefined
  readonly nowMs: number
  /** Given if the places of the records are their identity. */
  readonly fence?: PartitionFence | undefined
  /** Whether the group may have committed a higher offset than that of the first record. */
  readonly isSetBack: boolean
}

/** The offset of a partition that is read next. */
export interface NextOffset extends Partition {
  readonly offset: string
}

/**
 * The unsettled records of one partition: those of one fetch, or of several if the partition is fetched further
 * while a record is deferred or runs long.
 *
 * kafkajs waits for the records as long as the batch is *attached*. Then they continue in the background: kafkajs fetches
 * again only after every callback of its last fetch has returned, so one slow handler would stop all partitions. The
 * functions of the payload still work afterwards, as long as the consumer lives.
 *
 * The position of kafkajs is behind the last fetched record. Only offsets that are sent explicitly are committed.
 */
export class FetchedBatch implements Partition {
  readonly topic: string
  readonly partition: number
  readonly progress: Progress
  /** Aborted when no more of its records may start. */
  readonly stop: AbortController = new AbortController()
  /** Aborted when its running handlers exceeded the drain time or lost their partition. */
  readonly abort: AbortController = new AbortController()
  /** When its last records were fetched. */
  openedAtMs: number
  /** When one of its records was last settled or postponed. */
  lastKnownAtMs: number
  lastCommitAtMs: number
  attached = true
  /** Another member owns the partition, or the consumer's position is gone: its offset must not be moved. */
  isLost = false
  /** Its offset is being committed before more of its records start. */
  isCommitting = false
  /** Ends its heartbeats and commits. */
  stopBeating: () => void = () => undefined
  /** kafkajs rejoins when it gets this error. */
  rebalance: { readonly error: Error; readonly atMs: number } | undefined
  readonly #clusterId: string | undefined
  readonly #fence: PartitionFence | undefined
  #payload: EachBatchPayload
  #released = Promise.withResolvers<void>()
  #committed: string | undefined

  constructor(payload: EachBatchPayload, options: FetchedOptions) {
    const { clusterId, fence, isSetBack, nowMs, sharedLane } = options
    const { topic, partition, messages } = payload.batch
    this.topic = topic
    this.partition = partition
    this.#payload = payload
    this.#clusterId = clusterId
    this.#fence = fence
    this.openedAtMs = nowMs
    this.lastKnownAtMs = nowMs
    this.lastCommitAtMs = nowMs
    this.#committed = isSetBack ? undefined : messages[0]?.offset
    this.progress = new Progress(this.#itemsOf(payload), ({ lane }) => sharedLane ?? lane)
  }

  /** Takes the records of another fetch, for which kafkajs waits now. */
  append(payload: EachBatchPayload, nowMs: number): void {
    this.#payload = payload
    this.#released = Promise.withResolvers()
    this.attached = true
    this.openedAtMs = nowMs
    this.lastKnownAtMs = nowMs
    this.progress.append(this.#itemsOf(payload))
  }

  /** Whether the records follow the unsettled ones. If not, the partition was set back, and its offsets may mean others. */
  isContinuedBy({ batch }: EachBatchPayload): boolean {
    const first = batch.messages[0]?.offset
    return first !== undefined && BigInt(first) > BigInt(this.#payload.batch.lastOffset())
  }

  /**
   * Lets kafkajs fetch what follows the unsettled records. After a join its position is the committed offset again.
   *
   * Returns false if the partition is not this member's any more.
   */
  position(): boolean {
    try {
      // The last offset may be that of a control record, which kafkajs leaves out of the records.
      this.#payload.resolveOffset(this.#payload.batch.lastOffset())
      return true
    } catch {
      // A rejoin has just taken the topic away (K9). The error would end the consumer for good.
      return false
    }
  }

  /** Records that are not settled; of a lost partition only those that run. */
  get inFlight(): number {
    return this.isLost ? this.progress.running : this.progress.unsettled
  }

  /** Its records do not run, and will not. */
  get isOver(): boolean {
    const { isComplete, running } = this.progress
    return isComplete || (running === 0 && (this.isLost || this.stop.signal.aborted))
  }

  /** The consumer was stopped, by the user or by onceward. */
  get isStopped(): boolean {
    return !this.#payload.isRunning()
  }

  /** Resolves when the callback may return to kafkajs. */
  get released(): Promise<void> {
    return this.#released.promise
  }

  release(): void {
    this.#released.resolve()
  }

  /** The callback returns to kafkajs. Unsettled records may stay for minutes. */
  detach(): void {
    this.attached = false
    if (!this.isOver) ownBytes(this.#payload.batch)
  }

  /** What is settled need not be an exception any more. */
  settled(): void {
    this.#fence?.settledTo(Number(this.#next))
  }

  lose(): void {
    this.isLost = true
    this.stop.abort()
  }

  /** Whether nothing is left to commit. */
  get isCommitted(): boolean {
    return this.#next === this.#committed || this.isLost
  }

  /** Never rejects. A rebalance is recorded; any other error returns `failed` and is left to kafkajs. */
  async heartbeat(nowMs: number): Promise<'answered' | 'failed'> {
    try {
      await this.#payload.heartbeat()
      return 'answered'
    } catch (error) {
      return this.noteRebalance(error, nowMs) ? 'answered' : 'failed'
    }
  }

  /** The offset to commit, if it is a new one. */
  uncommitted(nowMs: number): NextOffset | undefined {
    const offset = this.#next
    if (this.isLost || offset === this.#committed) return undefined
    this.lastCommitAtMs = nowMs
    const { topic, partition } = this
    return { topic, partition, offset }
  }

  /** Commits offsets of any partitions of this consumer. Rejects with the error of kafkajs. */
  send(topics: OffsetsByTopicPartition['topics']): Promise<void> {
    return this.#payload.commitOffsetsIfNecessary({ topics })
  }

  committed({ offset }: NextOffset): void {
    this.#committed = offset
  }

  /** Returns whether the error makes kafkajs rejoin; the callback then rejects with it. */
  noteRebalance(thrown: unknown, atMs: number): boolean {
    const error = rebalanceIn(thrown)
    if (error !== undefined) this.rebalance ??= { error, atMs }
    return error !== undefined
  }

  /** The offset behind the last unsettled record. */
  get end(): string {
    return after(this.#payload.batch.lastOffset())
  }

  /** The offset to commit: that of the first record that is not settled. */
  get #next(): string {
    return this.progress.lowest?.record.message.offset ?? this.end
  }

  #itemsOf({ batch }: EachBatchPayload): readonly InHand[] {
    const { topic, partition, messages } = batch
    const toItem = (message: KafkaMessage): InHand =>
      new RecordInHand({ topic, partition, message }, this.#clusterId)
    const fence = this.#fence
    if (fence === undefined) return messages.map(toItem)
    let from = fetchedAt(batch).position
    return messages.flatMap((message) => {
      const place = { fence, from, offset: Number(message.offset) }
      from = place.offset + 1
      if (fence.isDone(place.offset)) return []
      return [new RecordInHand({ topic, partition, message }, this.#clusterId, place)]
    })
  }
}

/**
 * Throws the error that makes kafkajs rejoin, if the group is rebalancing.
 *
 * @param isHeld - A rebalance was noticed, and no join has ended it. If the answer to a SyncGroup request is lost, kafkajs
 * fetches on with the partitions that it had. The broker takes it for a member and answers its heartbeats, so without
 * this error it would never join again.
 */
export async function refuseIfRebalancing(
  { heartbeat }: EachBatchPayload,
  isHeld: boolean,
): Promise<void> {
  if (isHeld) throw new NotJoinedError()
  try {
    await heartbeat()
  } catch (error) {
    const rebalance = rebalanceIn(error)
    if (rebalance !== undefined) throw rebalance
    // Any other error: the broker did not answer. The next fetch finds out, and until then the store decides.
  }
}

/** kafkajs takes it for the broker's answer, and rejoins. */
class NotJoinedError extends Error {
  readonly type = 'REBALANCE_IN_PROGRESS'

  constructor() {
    super('the group is rebalancing, and no join has ended it')
  }
}

/** kafkajs' types leave out what was asked for. */
export function fetchedAt(batch: EachBatchPayload['batch']): FetchedAt {
  const { fetchedOffset } = batch as typeof batch & { readonly fetchedOffset: string }
  const next = Number(after(batch.lastOffset()))
  return { position: Number(fetchedOffset), next, end: Number(batch.highWatermark) }
}

const after = (offset: string): string => String(BigInt(offset) + 1n)
