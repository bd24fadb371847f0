import { ConfigurationError } from '@onceward/core'
import { answerWithin } from '@onceward/core/adapter'
import { classifyError } from '../../errors.ts'
import { nameOf, type Partition } from '../../offsets.ts'
import type {
  Fetched,
  Position,
  PulledConsumer,
  PulledEvents,
  PulledOptions,
  TopicIds,
} from '../port.ts'
import { withOffsets } from '../pulled/assignment.ts'
import { CALL_MS, Cluster } from './cluster.ts'
import { Commits } from './commits.ts'
import { type ConfluentConfig, consumerConfig } from './config.ts'
import {
  type ConfluentError,
  confluentError,
  fatalError,
  notAMember,
  notAnswered,
} from './errors.ts'
import { KeptRecords } from './kept-records.ts'
import {
  answerOf,
  type Callback,
  type RdConfig,
  type RdConsumer,
  type Rdkafka,
  type RdMessage,
  type RdPartition,
  type RdRebalance,
} from './rdkafka.ts'

/** How long a fetch waits for records. */
const WAIT_MS = 500
/** After this time without an answer of the broker it is asked for one. */
const LOOK_MS = 2_000
/** librdkafka connects again by itself; after this time it is replaced, so that the reason is found and shown. */
const SILENT_MS = 15_000
const ASSIGN = -175

/**
 * The native consumer of @confluentinc/kafka-javascript, asked for records: its compatible `eachBatch` skips records
 * of paused partitions (its issue #517).
 *
 * - `consume` waits for nothing, because each wait would hold one of the four threads of the process.
 * - librdkafka gives partitions away, or begins to read new ones, when it is told so: see {@link #rebalance}.
 * - No call may be under way when the client disconnects: librdkafka is freed under it.
 */
export class ConfluentConsumer implements PulledConsumer {
  readonly #options: PulledOptions
  readonly #events: PulledEvents
  readonly #rdkafka: Rdkafka
  readonly #config: RdConfig
  #native: RdConsumer | undefined
  readonly #commits: Commits
  #cluster: Cluster | undefined
  #topics: readonly string[] = []
  /** The partitions whose records are given. */
  readonly #owned = new Map<string, RdPartition>()
  /** Where the partitions begin that are about to be assigned. */
  #starts = new Map<string, number | undefined>()
  readonly #kept = new KeptRecords((verb, partition) =>
    this.#tell(() => this.#rd[verb]([partition])),
  )
  /** Where the log ends behind records that no consumer sees, as marks of transactions. */
  readonly #ends = new Map<string, Position>()
  #isNewMember = true
  /** The group has told which partitions this member has. */
  #hasJoined = false
  #isClosing = false
  #end: ConfluentError | undefined
  /** Why it may not hear of the broker. */
  #trouble: ConfluentError | undefined
  #answeredAtMs: number
  #isLooking = false
  #wake: () => void = () => undefined
  /** Calls of librdkafka that are under way. */
  readonly #calls = new Set<Promise<unknown>>()
  #rebalances: Promise<void> = Promise.resolve()
  #turn: Promise<unknown> = Promise.resolve()

  constructor(
    { config, rdkafka }: { readonly config: ConfluentConfig; readonly rdkafka: Rdkafka },
    options: PulledOptions,
    events: PulledEvents,
  ) {
    const { port, settings } = options
    this.#options = options
    this.#events = events
    this.#rdkafka = rdkafka
    this.#answeredAtMs = port.runtime.monotonic()
    this.#commits = new Commits((positions, done) => this.#rd.commitCb(positions, done))
    this.#config = {
      ...consumerConfig(config, settings, port.settings.consumer),
      queue_non_empty_cb: () => this.#wake(),
      rebalance_cb: (error: RdRebalance, parts: readonly RdPartition[]) =>
        this.#rebalance(error, parts),
      offset_commit_cb: (error: unknown, positions: readonly RdPartition[]) =>
        this.#commits.answered(error, positions),
    }
  }

  async connect(): Promise<void> {
    this.#native = this.#create()
    this.#rd.on('event.error', (error) => {
      this.#trouble = confluentError(error)
    })
    this.#rd.on('partition.eof', (end) => {
      const { topic, partition, offset } = end
      this.#ends.set(nameOf(end), { topic, partition, offset: BigInt(offset) })
    })
    try {
      await this.#call((done) => this.#rd.connect({ allTopics: false, timeout: CALL_MS }, done))
    } catch (error) {
      // The event says why; the call only that there is no connection.
      throw this.#trouble ?? error
    }
    this.#rd.setDefaultConsumeTimeout(0)
    this.#rd.setDefaultIsTimeoutOnlyForFirstMessage(true)
    const admin = this.#rdkafka.AdminClient.createFrom(this.#rd)
    this.#cluster = new Cluster(this.#rdkafka, admin, (call) => this.#track(call))
    this.#answered()
  }

  subscribe(topics: readonly string[]): Promise<void> {
    this.#topics = topics
    this.#rd.subscribe(topics)
    return Promise.resolve()
  }

  readonly topicIds = (topics: readonly string[] | 'all'): Promise<TopicIds> =>
    this.#known.topicIds(topics)

  async committed(partitions: readonly Partition[]): Promise<readonly Position[]> {
    if (partitions.length === 0) return []
    const found = await this.#call<readonly RdPartition[]>((done) =>
      this.#rd.committed([...partitions], CALL_MS, done),
    )
    this.#answered()
    return withOffsets(
      found.map(({ topic, partition, offset }) => ({
        ...{ topic, partition, offset: BigInt(offset ?? -1) },
      })),
    )
  }

  oldest(partitions: readonly Partition[]): Promise<readonly Position[]> {
    return this.#known.endsOf(partitions, 'EARLIEST')
  }

  ends(partitions: readonly Partition[]): Promise<readonly Position[]> {
    return this.#known.endsOf(partitions, 'LATEST')
  }

  /**
   * Before it joins, its commit is that of no member, which Kafka takes while the group is empty. Offsets of other topics
   * are not asked for: when a coordinator is not ready yet, `listConsumerGroupOffsets` of 1.10 reads a null pointer.
   */
  async startAtEnds(topics: readonly string[]): Promise<boolean> {
    const partitions = await this.#known.partitionsOf(topics)
    const hasStarted = async (): Promise<boolean> => (await this.committed(partitions)).length > 0
    if (partitions.length === 0 || (await hasStarted())) return true
    try {
      await this.#polled(this.#commits.send(await this.#known.endsOf(partitions, 'LATEST')))
      return true
    } catch (error) {
      if (classifyError(error).kind !== 'rebalance') throw error
      // Another member has joined meanwhile.
      return hasStarted()
    }
  }

  async seek(positions: readonly Position[]): Promise<void> {
    const now: RdPartition[] = []
    for (const { topic, partition, offset } of positions) {
      const name = nameOf({ topic, partition })
      if (this.#starts.has(name)) this.#starts.set(name, Number(offset))
      else if (this.#owned.has(name)) now.push({ topic, partition, offset: Number(offset) })
    }
    if (now.length === 0) return
    await this.#alone(async () => {
      this.#forget(now)
      for (const position of now) {
        await this.#call((done) => this.#rd.seek(position, CALL_MS, done))
      }
      this.#tell(() => this.#rd.resume(now))
    })
  }

  async fetch(most: number): Promise<readonly Fetched[]> {
    this.#look()
    const kept = this.#given(most)
    if (kept.length > 0) return kept
    const woken = this.#woken()
    const first = await this.#consume(most)
    if (first.length > 0) return first
    await woken
    return this.#consume(most)
  }

  pause(partitions: readonly Partition[]): void {
    this.#kept.pause(partitions)
  }

  resume(partitions: readonly Partition[]): void {
    this.#kept.resume(partitions)
    this.#wake()
  }

  /** librdkafka sends it in the name of the present generation, so it must not be sent for a partition that is gone. */
  async commit(positions: readonly Position[]): Promise<void> {
    const owned = positions.filter((each) => this.#owned.has(nameOf(each)))
    if (owned.length < positions.length || this.#isClosing) throw notAMember()
    try {
      await this.#commits.send(owned)
      this.#answered()
    } catch (error) {
      const failure = confluentError(error)
      if (!failure.isFatal) throw failure
      this.#over(failure)
      throw notAMember()
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true
    this.#wake()
    await this.#turn.catch(() => undefined)
    await this.#rebalances
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls)
    const native = this.#native
    if (native?.isConnected()) await answerOf<unknown>((done) => native.disconnect(done))
  }

  /** Before the first fetch nobody takes the answers that librdkafka has. */
  async #polled(asking: Promise<void>): Promise<void> {
    let isOver = false
    const over = (): void => {
      isOver = true
      this.#wake()
    }
    asking.then(over, over)
    while (!(isOver || this.#isClosing)) {
      const woken = this.#woken()
      await this.#received(1)
      await woken
    }
    await asking
  }

  /** @throws {@link ConfigurationError} for settings that librdkafka does not know. */
  #create(): RdConsumer {
    try {
      return new this.#rdkafka.KafkaConsumer(this.#config)
    } catch (error) {
      const { message } = confluentError(error)
      throw new ConfigurationError(`librdkafka refuses a setting of \`confluent\`: ${message}.`, {
        cause: error,
      })
    }
  }

  get #rd(): RdConsumer {
    if (this.#native === undefined) throw notAMember()
    return this.#native
  }

  get #known(): Cluster {
    if (this.#cluster === undefined) throw notAMember()
    return this.#cluster
  }

  /**
   * librdkafka waits for the answer to each: meanwhile the member keeps its place in the group, and so do the partitions
   * that stay. An assignment is answered with the offsets from which its partitions are read.
   */
  #rebalance({ code }: RdRebalance, parts: readonly RdPartition[]): void {
    if (this.#isClosing) {
      this.#answerClosing()
      return
    }
    this.#hasJoined = true
    const isLost = code !== ASSIGN && this.#rd.assignmentLost()
    if (isLost) this.#lose(parts)
    this.#rebalances = this.#rebalances.then(async () => {
      try {
        if (code === ASSIGN) await this.#assign(parts)
        else await this.#revoke(parts, isLost)
      } catch (error) {
        if (!this.#isClosing) this.#over(confluentError(error))
      }
    })
  }

  /** Without an answer the disconnect would never end, and the member would keep its partitions. */
  #answerClosing(): void {
    this.#tell(() => this.#rd.unassign())
  }

  async #assign(parts: readonly RdPartition[]): Promise<void> {
    this.#starts = new Map(parts.map((each) => [nameOf(each), undefined]))
    await this.#events.onAssigned(parts, this.#isNewMember)
    this.#isNewMember = false
    const starts = parts.map(({ topic, partition }) => {
      const offset = this.#starts.get(nameOf({ topic, partition }))
      return offset === undefined ? { topic, partition } : { topic, partition, offset }
    })
    // After the fetch that is under way, whose records were fetched before.
    await this.#alone(() => {
      if (this.#isClosing) return this.#answerClosing()
      if (this.#isEager) this.#rd.assign(starts)
      else this.#rd.incrementalAssign(starts)
      this.#tell(() => this.#rd.resume(starts))
      for (const each of starts) this.#owned.set(nameOf(each), each)
      this.#starts = new Map()
    })
    this.#wake()
  }

  async #revoke(parts: readonly RdPartition[], isLost: boolean): Promise<void> {
    if (!isLost) {
      this.#tell(() => this.#rd.pause([...parts]))
      await this.#events.onRevoked(parts)
      for (const each of parts) this.#owned.delete(nameOf(each))
      this.#forget(parts)
    }
    if (this.#isClosing) return this.#answerClosing()
    if (this.#isEager) this.#rd.unassign()
    else this.#rd.incrementalUnassign(parts)
  }

  #lose(parts: readonly RdPartition[]): void {
    this.#isNewMember = true
    for (const each of parts) this.#owned.delete(nameOf(each))
    this.#forget(parts)
    this.#events.onLost(parts)
  }

  get #isEager(): boolean {
    return this.#rd.rebalanceProtocol() === 'EAGER'
  }

  #forget(parts: readonly RdPartition[]): void {
    this.#kept.forget(parts)
    for (const each of parts) this.#ends.delete(nameOf(each))
  }

  #consume(most: number): Promise<readonly Fetched[]> {
    return this.#alone(async () => {
      if (this.#end !== undefined) throw this.#end
      if (this.#isClosing) return []
      for (;;) {
        const messages = await this.#received(most)
        if (messages.length > 0) this.#answered()
        for (const each of messages) if (this.#owned.has(nameOf(each))) this.#kept.add(each)
        const given = this.#given(most)
        // Behind records that are not wanted now there may be an answer that somebody waits for.
        if (given.length > 0 || messages.length < most || this.#isClosing) return given
      }
    })
  }

  async #received(most: number): Promise<readonly RdMessage[]> {
    try {
      return await this.#call<readonly RdMessage[]>((done) => this.#rd.consume(most, done))
    } catch (error) {
      // Errors of a topic or of a broker pass: librdkafka goes on by itself.
      const failure = confluentError(error)
      this.#trouble = failure
      const { kind } = classifyError(failure)
      const isFinal = failure.isFatal || kind === 'configuration' || kind === 'credentials'
      if (isFinal || failure.type === 'GROUP_AUTHORIZATION_FAILED') this.#over(failure)
      return []
    }
  }

  /** Records of the partitions that are not paused, and the ends of those that have no more. */
  #given(most: number): readonly Fetched[] {
    const given = this.#kept.take(most)
    const reached = [...this.#ends].filter(([name]) => this.#kept.isGiven(name))
    for (const [name] of reached) this.#ends.delete(name)
    return withEnds(
      given,
      reached.flatMap(([name, end]) => (this.#owned.has(name) ? [end] : [])),
    )
  }

  /** Resolves when librdkafka has something, a partition is resumed, or after {@link WAIT_MS}. */
  async #woken(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    await answerWithin(this.#options.port.runtime, promise, WAIT_MS, { keepAlive: false })
  }

  /** librdkafka does not tell of heartbeats. The coordinator is asked for an offset when nothing else was heard. */
  #look(): void {
    const silentMs = this.#options.port.runtime.monotonic() - this.#answeredAtMs
    if (silentMs > SILENT_MS) this.#over(this.#trouble ?? notAnswered())
    const [topic] = this.#topics
    if (silentMs < LOOK_MS || this.#isLooking || topic === undefined) return
    this.#isLooking = true
    this.committed([{ topic, partition: 0 }])
      .then(() => this.#joinedWithNone())
      .catch((error: unknown) => {
        const failure = confluentError(error)
        if (failure.isAnswer) this.#answered()
        this.#trouble = failure
      })
      .finally(() => {
        this.#isLooking = false
      })
  }

  /**
   * With KIP-848, librdkafka tells nothing of a join without partitions. A refusal of the join comes within the time after
   * which the coordinator is asked, so its answer means that the member has joined.
   */
  #joinedWithNone(): void {
    if (this.#hasJoined || this.#isClosing || this.#config['group.protocol'] !== 'consumer') return
    this.#hasJoined = true
    this.#rebalances = this.#rebalances.then(() => this.#events.onAssigned([], this.#isNewMember))
  }

  #answered(): void {
    this.#answeredAtMs = this.#options.port.runtime.monotonic()
    this.#trouble = undefined
    this.#events.onAnswered()
  }

  #over(error: ConfluentError): void {
    if (this.#end !== undefined || this.#isClosing) return
    this.#end = fatalError(error, this.#config)
    this.#events.onEnded(this.#end)
  }

  /** One after the other: no assignment or seek while records are fetched. */
  #alone<Value>(work: () => Value | Promise<Value>): Promise<Value> {
    const turn = this.#turn.then(work, work)
    this.#turn = turn
    return turn
  }

  async #call<Value = void>(call: (done: Callback<Value>) => void): Promise<Value> {
    const calling = answerOf(call)
    this.#track(calling)
    try {
      return await calling
    } catch (error) {
      throw confluentError(error)
    }
  }

  #track(call: Promise<unknown>): void {
    const settled = call.catch(() => undefined).finally(() => this.#calls.delete(settled))
    this.#calls.add(settled)
  }

  /** Of a client that is about to disconnect, or of a partition that it has just given away. */
  #tell(call: () => void): void {
    try {
      call()
    } catch {
      // There is nothing to pause or to give away then.
    }
  }
}

/** Behind the marks of transactions, which no consumer sees. */
function withEnds(given: readonly Fetched[], ends: readonly Position[]): readonly Fetched[] {
  const offsets = new Map(ends.map((each) => [nameOf(each), each.offset]))
  const further = given.map((each) => {
    const end = offsets.get(nameOf(each)) ?? 0n
    offsets.delete(nameOf(each))
    return { ...each, next: end > each.next ? end : each.next }
  })
  const alone = ends.filter((each) => offsets.has(nameOf(each)))
  const empty = alone.map(({ topic, partition, offset }) => ({
    ...{ topic, partition, next: offset },
    records: [],
  }))
  return [...further, ...empty]
}
