import type { Runtime } from '@onceward/core/ports'
import type {
  ConsumerEndBatchProcessEvent,
  ConsumerGroupJoinEvent,
  EachBatchPayload,
  KafkaMessage,
} from 'kafkajs'
import type { KafkaConsumer } from '../../client.ts'
import { rebalanceIn } from '../../errors.ts'
import { nameOf, type Partition } from '../../offsets.ts'
import type { Fetched, Position, PulledEvents } from '../port.ts'
import { Assignment, byTopic, partitionsOf } from '../pulled/assignment.ts'

/** What a consumer of kafkajs brings and tells. */
export interface FeedEvents
  extends Pick<PulledEvents, 'onAssigned' | 'onLost' | 'onHeld' | 'onAnswered'> {
  /** kafkajs fetches on when this has ended. */
  readonly onFetched: (fetched: Fetched, from: bigint) => Promise<void> | void
}

export interface FeedOptions {
  readonly consumer: KafkaConsumer
  readonly runtime: Runtime
  readonly sessionMs: number
  readonly events: FeedEvents
}

/**
 * Takes records from kafkajs, which goes on at once: its position is behind them, and only offsets that are sent explicitly
 * are committed.
 *
 * kafkajs may go on outside of its group. If the answer to the last request of a join is lost, or the broker has forgotten
 * the member and the next join fails, it fetches on with the partitions that it had, without end (brokers.md C20). Records
 * that come then are refused with an error that makes it join, and do not count as a sign of life.
 */
export class Feed {
  readonly #options: FeedOptions
  readonly #assignment: Assignment
  /** What is read next of each partition. */
  readonly #next = new Map<string, bigint>()
  readonly #paused = new Map<string, Partition>()
  #joins = 0
  #isOver = false
  #commit: EachBatchPayload['commitOffsetsIfNecessary'] | undefined
  /** A rebalance was noticed, and no join has ended it. */
  #missesJoin = false
  /** Of the first heartbeat since the last join. */
  #generation: number | undefined
  #beatAtMs = 0
  #heardAtMs = 0

  constructor(options: FeedOptions) {
    this.#options = options
    const { consumer, events } = options
    this.#assignment = new Assignment(events)
    const { CRASH, END_BATCH_PROCESS, FETCH, GROUP_JOIN, HEARTBEAT, REBALANCING } = consumer.events
    consumer.on(GROUP_JOIN, ({ payload }) => this.#joined(payload))
    consumer.on(REBALANCING, () => {
      this.#missesJoin = true
      events.onHeld(true)
    })
    consumer.on(HEARTBEAT, ({ payload }) => {
      this.#generation ??= payload.groupGenerationId
      this.#missesJoin ||= payload.groupGenerationId !== this.#generation
      this.#beatAtMs = this.#nowMs
      this.#answered()
    })
    consumer.on(FETCH, () => this.#answered())
    consumer.on(END_BATCH_PROCESS, ({ payload }) => this.#passed(payload))
    consumer.on(CRASH, () => this.#crashed())
  }

  /** Time since the broker has answered this member of its group. */
  get silentMs(): number {
    return this.#nowMs - this.#heardAtMs
  }

  /** Since the last heartbeat. The broker forgets a member that is silent for a session. */
  get #quietMs(): number {
    return this.#nowMs - this.#beatAtMs
  }

  /** For `consumer.run`. It rejects only with an error that makes kafkajs join. */
  readonly eachBatch = async (payload: EachBatchPayload): Promise<void> => {
    const { batch } = payload
    const joins = this.#joins
    await this.#assignment.told
    await this.#refuseIfRebalancing(payload)
    // Fetched before a join, whose partitions and positions are others, or before a seek that is not carried out yet.
    const isUnwanted = (): boolean =>
      this.#isOver || joins !== this.#joins || payload.isStale() || !this.#assignment.owns(batch)
    if (isUnwanted()) return
    const from = BigInt(fetchedOffsetOf(batch))
    if (from < (this.#next.get(nameOf(batch)) ?? from)) {
      // kafkajs has set its position back, because the log does not have it.
      await this.#readAnew(batch)
      if (isUnwanted()) return
    }
    const { topic, partition, messages } = batch
    // The last one may be that of a control record, which kafkajs leaves out.
    const last = batch.lastOffset()
    // A join may just take the topic away (K9). The error would end the consumer for good.
    if (!resolves(payload, last)) return
    this.#commit = payload.commitOffsetsIfNecessary
    const next = BigInt(last) + 1n
    this.#next.set(nameOf(batch), next)
    const records = messages.map((message) => ({ topic, partition, message: own(message) }))
    await this.#options.events.onFetched({ topic, partition, records, next }, from)
  }

  /**
   * kafkajs gives no batch that has only marks of transactions and aborted records. It may have been fetched before a join
   * or a seek, so it counts only if it begins with what is read next.
   */
  #passed(ended: ConsumerEndBatchProcessEvent['payload']): void {
    const { batchSize, firstOffset, lastOffset, topic, partition } = ended
    const name = nameOf({ topic, partition })
    if (batchSize > 0 || this.#isOver || firstOffset !== String(this.#next.get(name))) return
    const next = BigInt(lastOffset) + 1n
    this.#next.set(name, next)
    void this.#options.events.onFetched(
      { topic, partition, records: [], next },
      BigInt(firstOffset),
    )
  }

  /** As this member in its present generation. */
  async commit(positions: readonly Position[]): Promise<void> {
    if (this.#commit === undefined) throw new NotJoinedError()
    const topics = byTopic(positions, ({ partition, offset }) => ({
      ...{ partition, offset: String(offset) },
    }))
    await this.#commit({ topics })
  }

  pause(partitions: readonly Partition[]): void {
    for (const { topic, partition } of partitions) {
      this.#paused.set(nameOf({ topic, partition }), { topic, partition })
      this.#tell('pause', { topic, partition })
    }
  }

  resume(partitions: readonly Partition[]): void {
    for (const each of partitions) if (this.#paused.delete(nameOf(each))) this.#tell('resume', each)
  }

  seek(positions: readonly Position[]): void {
    for (const each of positions) {
      // kafkajs would keep the position until the partition comes again (K10).
      if (!this.#assignment.owns(each)) continue
      this.#next.set(nameOf(each), each.offset)
      this.#options.consumer.seek({ ...each, offset: String(each.offset) })
    }
    this.resume(positions)
  }

  end(): void {
    this.#isOver = true
  }

  get #nowMs(): number {
    return this.#options.runtime.monotonic()
  }

  #answered(): void {
    if (this.#missesJoin || this.#quietMs >= this.#options.sessionMs) return
    this.#heardAtMs = this.#nowMs
    this.#options.events.onAnswered()
  }

  #joined({ memberAssignment, memberId }: ConsumerGroupJoinEvent['payload']): void {
    if (this.#isOver) return
    const owned = partitionsOf(Object.entries(memberAssignment))
    const change = this.#assignment.change(memberId, owned)
    this.#joins += 1
    this.#missesJoin = false
    this.#generation = undefined
    this.#beatAtMs = this.#nowMs
    this.#heardAtMs = this.#nowMs
    this.#forget(change.gone)
    // kafkajs is at the committed offsets again.
    for (const partition of owned) {
      const offset = this.#next.get(nameOf(partition))
      if (offset === undefined) continue
      this.#options.consumer.seek({ ...partition, offset: String(offset) })
    }
    this.#assignment.tell(change)
  }

  #crashed(): void {
    this.#commit = undefined
    const { events } = this.#options
    this.#forget(this.#assignment.owned)
    this.#assignment.clear()
    if (!this.#isOver) events.onHeld(false)
  }

  #forget(partitions: readonly Partition[]): void {
    if (partitions.length === 0) return
    for (const each of partitions) this.#next.delete(nameOf(each))
    // kafkajs keeps pauses over a join: a partition that comes again would stay paused.
    this.resume(partitions)
    this.#options.events.onLost(partitions)
  }

  async #readAnew({ topic, partition }: Partition): Promise<void> {
    const again = [{ topic, partition }]
    this.#forget(again)
    await this.#options.events.onAssigned(again, false)
  }

  async #refuseIfRebalancing({ heartbeat }: EachBatchPayload): Promise<void> {
    try {
      await heartbeat()
    } catch (error) {
      const rebalance = rebalanceIn(error)
      if (rebalance !== undefined) throw rebalance
      // Any other error: the broker did not answer. The next fetch finds out, and until then the store decides.
    }
    // A wrapped consumer may have longer times than is known here.
    const isForgotten = this.#quietMs >= 3 * this.#options.sessionMs
    if (this.#missesJoin || isForgotten) throw new NotJoinedError()
  }

  #tell(verb: 'pause' | 'resume', { topic, partition }: Partition): void {
    try {
      this.#options.consumer[verb]([{ topic, partitions: [partition] }])
    } catch {
      // Between a stop or a crash and the next run, kafkajs has no partitions to pause and throws.
    }
  }
}

function resolves({ resolveOffset }: EachBatchPayload, offset: string): boolean {
  try {
    resolveOffset(offset)
    return true
  } catch {
    return false
  }
}

/** kafkajs' types leave out what was asked for. */
const fetchedOffsetOf = (batch: EachBatchPayload['batch']): string =>
  (batch as typeof batch & { readonly fetchedOffset: string }).fetchedOffset

/**
 * Gives a record bytes of its own. kafkajs cuts records out of the answer to its fetch, so one small unsettled record would
 * keep the whole answer in memory: up to 10 MB, with the records of other partitions.
 */
function own(message: KafkaMessage): KafkaMessage {
  const { headers = {}, key, value } = message
  for (const name of Object.keys(headers)) headers[name] = owned(headers[name])
  return Object.assign(message, { key: owned(key), value: owned(value) })
}

function owned<Value>(value: Value): Value {
  const copy: unknown = Array.isArray(value)
    ? value.map(owned)
    : value instanceof Uint8Array
      ? Buffer.from(value)
      : value
  return copy as Value
}

/** kafkajs takes it for the broker's answer, and joins. */
class NotJoinedError extends Error {
  readonly type = 'REBALANCE_IN_PROGRESS'

  constructor() {
    super('this member has not joined its group, or its group is rebalancing')
  }
}
