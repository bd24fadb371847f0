import { Admin, Consumer, type ConsumerOptions, type MessagesStream } from '@platformatic/kafka'
import type { Partition } from '../../offsets.ts'
import type { ConsumerSettings } from '../../options.ts'
import type {
  Fetched,
  Position,
  PulledConsumer,
  PulledEvents,
  PulledOptions,
  TopicLook,
} from '../port.ts'
import { Assignment, byTopic, partitionsOf, withOffsets } from '../pulled/assignment.ts'
import { signatureOf } from '../shared-group.ts'
import { Fetches } from './fetches.ts'
import type { PlatformaticOptions } from './options.ts'
import { lookOf } from './view.ts'

type Bytes = Buffer
type Own = ConsumerOptions<Bytes, Bytes, Bytes, Bytes>

/** The earliest, as Kafka numbers special timestamps. */
const EARLIEST = -2n
const LATEST = -1n
const NO_OFFSET = -1n
/** So long it is said that another member has taken the place of this one. */
const TAKEN_MS = 60_000

const placeTaken = (id: string): string =>
  `This member has lost its place in the group: another one has joined with the same \`groupInstanceId\` (${id}), or this one was silent for a session. Give each member an id of its own.`

/** A consumer of `@platformatic/kafka`: its group, its requests, and positions of our own. */
export class PlatformaticConsumer implements PulledConsumer {
  readonly topicIds: TopicLook
  readonly #options: PulledOptions
  readonly #events: PulledEvents
  readonly #client: PlatformaticOptions
  readonly #consumer: Consumer
  readonly #fetches: Fetches
  #admin: Admin | undefined
  #stream: MessagesStream<Bytes, Bytes, Bytes, Bytes> | undefined
  readonly #assignment: Assignment
  #takenUntilMs = Number.NEGATIVE_INFINITY
  #isOver = false

  constructor(client: PlatformaticOptions, options: PulledOptions, events: PulledEvents) {
    this.#client = client
    this.#options = options
    this.#events = events
    this.#assignment = new Assignment(events)
    const { port, settings } = options
    const { maxBytes = 10_485_760, maxBytesPerPartition = 1_048_576 } = settings.consumer
    const { maxWaitTimeInMs: maxWaitTime, minBytes = 1 } = settings.consumer
    this.#consumer = new Consumer({
      ...client,
      ...groupOptions(client, settings, port.settings.consumer),
      ...{ groupId: settings.consumer.groupId, autocommit: false, autocreateTopics: false },
    } as Own)
    this.topicIds = lookOf(this.#consumer, () => this.#asked())
    this.#fetches = new Fetches({
      runtime: port.runtime,
      consumer: this.#consumer,
      limits: { maxBytes, maxBytesPerPartition, maxWaitTime, minBytes },
      onOutOfRange: (position) => this.#outOfRange(position),
    })
    this.#listen()
  }

  get notice(): string | undefined {
    const { denied } = this.#fetches
    const { groupInstanceId = '' } = this.#client
    const isTaken = this.#options.port.runtime.monotonic() < this.#takenUntilMs
    const notices = [
      denied.length > 0 &&
        `Topic '${denied.join("', '")}' waits: this client may not read it. Allow Read on the topic.`,
      isTaken && placeTaken(groupInstanceId),
    ]
    return notices.filter((each) => typeof each === 'string').join(' ') || undefined
  }

  async connect(): Promise<void> {
    await this.#consumer.metadata({ topics: [] })
  }

  async subscribe(topics: readonly string[]): Promise<void> {
    // The stream is never read: it keeps the membership, and its connections are those of the fetches.
    const stream = await this.#consumer.consume({
      ...{ topics: [...topics], autocommit: false },
      ...{ mode: 'committed', fallbackMode: 'earliest' },
    })
    this.#stream = stream
    stream.on('error', (error) => this.#end(error))
    // With the protocol of KIP-848, the client resumes its streams after partitions went. It would fetch by itself then.
    Object.assign(stream, { resume: () => stream })
    if (this.#isOver) return
    this.#fetches.begin(stream)
    this.#sync()
  }

  async committed(partitions: readonly Partition[]): Promise<readonly Position[]> {
    if (partitions.length === 0) return []
    const found = await this.#consumer.listCommittedOffsets({
      topics: byTopic(partitions, numberOf),
    })
    return positionsOf(partitions, found)
  }

  oldest(partitions: readonly Partition[]): Promise<readonly Position[]> {
    return this.#offsetsAt(partitions, EARLIEST)
  }

  ends(partitions: readonly Partition[]): Promise<readonly Position[]> {
    return this.#offsetsAt(partitions, LATEST)
  }

  async #offsetsAt(
    partitions: readonly Partition[],
    timestamp: bigint,
  ): Promise<readonly Position[]> {
    const topics = byTopic(partitions, numberOf)
    const found = await this.#consumer.listOffsets({
      topics: topics.map(({ topic }) => topic),
      partitions: Object.fromEntries(topics.map((each) => [each.topic, each.partitions])),
      timestamp,
    })
    return positionsOf(partitions, found)
  }

  async startAtEnds(topics: readonly string[]): Promise<boolean> {
    const admin = this.#asked()
    const { groupId } = this.#options.settings.consumer
    const isNew = async (): Promise<boolean> => {
      const groups = await admin.listConsumerGroupOffsets({ groups: [groupId] })
      const offsets = groups.flatMap((group) =>
        group.topics.flatMap(({ partitions }) => partitions),
      )
      return offsets.every(({ committedOffset }) => committedOffset < 0n)
    }
    if (topics.length === 0 || !(await isNew())) return true
    const ends = await this.#consumer.listOffsets({ topics: [...topics], timestamp: LATEST })
    const ending = [...ends].map(([name, offsets]) => ({
      name,
      partitionOffsets: offsets.map((offset, partition) => ({ partition, offset })),
    }))
    try {
      await admin.alterConsumerGroupOffsets({ groupId, topics: ending })
      return true
    } catch (error) {
      // Another member has joined meanwhile: Kafka refuses the offsets of others then.
      if (await isNew()) throw error
      return true
    }
  }

  async seek(positions: readonly Position[]): Promise<void> {
    this.#fetches.seek(positions.filter((each) => this.#assignment.owns(each)))
  }

  fetch(most: number): Promise<readonly Fetched[]> {
    // The protocol of KIP-848 changes the assignment without an event.
    this.#sync()
    return this.#fetches.take(most)
  }

  pause(partitions: readonly Partition[]): void {
    this.#fetches.pause(partitions, true)
  }

  resume(partitions: readonly Partition[]): void {
    this.#fetches.pause(partitions, false)
  }

  /**
   * If the generation is over, the client joins again and commits in the name of the next one. Everything below an offset
   * that comes here is done, so that costs duplicates at most; what is known to be over is not sent.
   */
  async commit(positions: readonly Position[]): Promise<void> {
    const { memberId } = this.#consumer
    const isMember = this.#consumer.isActive() && memberId === this.#assignment.memberId
    if (!(isMember && positions.every((each) => this.#assignment.owns(each)))) {
      throw new NoMemberError()
    }
    const offsets = positions.map(({ topic, partition, offset }) => {
      return { topic, partition, offset, leaderEpoch: -1 }
    })
    await this.#consumer.commit({ offsets })
    if (this.#consumer.memberId !== memberId) throw new NoMemberError()
  }

  async close(): Promise<void> {
    this.#isOver = true
    this.#fetches.end()
    if (this.#stream !== undefined) Reflect.deleteProperty(this.#stream, 'resume')
    // It leaves only if its metadata names the coordinator, and an error may have cleared them. The partitions of a member
    // that has not left wait until its session expires.
    if (this.#consumer.currentMetadata === undefined) {
      await this.#consumer.metadata({ topics: [], retries: 0 }).catch(() => undefined)
    }
    await Promise.allSettled([this.#consumer.close(true), this.#admin?.close()])
  }

  #asked(): Admin {
    this.#admin ??= new Admin(this.#client)
    return this.#admin
  }

  #listen(): void {
    const consumer = this.#consumer
    consumer.on('error' as never, ((error: unknown) => this.#end(error)) as never)
    consumer.on('consumer:group:join', () => this.#sync(true))
    consumer.on('consumer:group:rebalance', () => {
      if (this.#client.groupProtocol !== 'consumer') this.#events.onHeld(true)
    })
    consumer.on('consumer:heartbeat:end', () => {
      if (this.#isOver) return
      this.#events.onAnswered()
      this.#sync()
    })
    consumer.on('consumer:heartbeat:stalled', ({ lastError, stalledFor }) =>
      this.#end(lastError ?? new Error(`no heartbeat was answered for ${stalledFor} ms`)),
    )
  }

  #end(error: unknown): void {
    if (!this.#isOver) this.#events.onEnded(error)
  }

  /** Compares the assignment with the last one. After a join the answer is told also if nothing has changed. */
  #sync(isJoin = false): void {
    const { assignments, memberId } = this.#consumer
    if (assignments === null || memberId === null || this.#isOver) return
    const isFirst = this.#assignment.memberId === undefined
    const owned = partitionsOf(assignments.map(({ topic, partitions }) => [topic, partitions]))
    const change = this.#assignment.change(memberId, owned)
    const { came, gone, isNewMember } = change
    if (isNewMember) this.#noteTaken()
    if (gone.length > 0) {
      this.#fetches.drop(gone)
      this.#events.onLost(gone)
    }
    if (came.length + gone.length > 0 || isFirst || isJoin) this.#assignment.tell(change)
  }

  /** A static member keeps its id. The client joins again under another one, and takes the place back. */
  #noteTaken(): void {
    const { groupInstanceId } = this.#client
    if (!groupInstanceId) return
    const { logger, runtime } = this.#options.port
    const nowMs = runtime.monotonic()
    if (nowMs >= this.#takenUntilMs) {
      const fields = { group: this.#options.settings.consumer.groupId, groupInstanceId }
      const fix = 'give each member an id of its own'
      logger.error({ ...fields, fix }, 'a static member has lost its place in the group')
    }
    this.#takenUntilMs = nowMs + TAKEN_MS
  }

  async #outOfRange({ topic, partition, offset }: Position): Promise<Position | undefined> {
    const [oldest] = await this.oldest([{ topic, partition }])
    const fix = 'records were lost if retention deleted them: raise it, or consume faster'
    this.#options.port.logger.error(
      { topic, partition, offset: String(offset), oldest: String(oldest?.offset), fix },
      'the next records of a partition are no longer in its log; reading on at the oldest one',
    )
    return oldest
  }
}

/** Classified as a rebalance. */
class NoMemberError extends Error {
  readonly type = 'ILLEGAL_GENERATION'

  constructor() {
    super('the partition is not of this member any more')
  }
}

/** What the protocol of the group takes. */
function groupOptions(
  client: PlatformaticOptions,
  { consumer }: ConsumerSettings,
  name: string,
): Partial<Own> {
  const { heartbeatInterval, sessionTimeout } = consumer
  const rebalanceTimeout = Math.max(consumer.rebalanceTimeout ?? 60_000, sessionTimeout)
  if (client.groupProtocol === 'consumer') return { rebalanceTimeout } as Partial<Own>
  // The name of kafkajs' assigner, so that members of both clients can be in the group while one follows the other.
  const protocols = [{ name: 'RoundRobinAssigner', version: 1, metadata: signatureOf(name) }]
  return { heartbeatInterval, protocols, rebalanceTimeout, sessionTimeout } as Partial<Own>
}

const numberOf = ({ partition }: Partition): number => partition

function positionsOf(
  partitions: readonly Partition[],
  found: ReadonlyMap<string, readonly bigint[]>,
): readonly Position[] {
  return withOffsets(
    partitions.map(({ topic, partition }) => ({
      ...{ topic, partition, offset: found.get(topic)?.[partition] ?? NO_OFFSET },
    })),
  )
}
