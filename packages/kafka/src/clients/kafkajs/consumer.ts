import { ConfigurationError } from '@onceward/core'
import type { Cluster, Consumer } from 'kafkajs'
import type { KafkaClient } from '../../client.ts'
import { isUnknownMember } from '../../errors.ts'
import { nameOf, type Partition } from '../../offsets.ts'
import type {
  Fetched,
  Position,
  PulledConsumer,
  PulledEvents,
  PulledOptions,
  TopicLook,
} from '../port.ts'
import { byTopic, withOffsets } from '../pulled/assignment.ts'
import { sharedGroup } from '../shared-group.ts'
import { hideAborted } from './aborted.ts'
import { Feed } from './feed.ts'
import { withCluster } from './group.ts'
import { outOfRangeLog } from './out-of-range.ts'
import { type Coordinator, startAtEnds } from './start-offsets.ts'
import { lookOf } from './topic-ids.ts'

/** What the consumers of one consumption leave to each other. */
export interface Before {
  /** The id of the last member that joined. */
  memberId?: string | undefined
  /** One of them has had partitions. */
  hasOwned?: boolean
}

/** {@link PulledConsumer.fetch} waits so long. */
const WAIT_MS = 500

/** A consumer of kafkajs: its group, its requests, and the records that it brings. */
export class KafkajsConsumer implements PulledConsumer {
  readonly #options: PulledOptions
  readonly #before: Before
  readonly #consumer: Consumer
  readonly #clusterOf: () => Cluster | undefined
  readonly #feed: Feed
  readonly #events: PulledEvents
  /** Requests under way. */
  readonly #asking = new Set<Promise<unknown>>()
  #isOver = false
  #queue: Fetched[] = []
  #came = Promise.withResolvers<void>()
  #taken = Promise.withResolvers<void>()

  constructor(
    kafka: Pick<KafkaClient, 'consumer'>,
    options: PulledOptions,
    events: PulledEvents,
    before: Before,
  ) {
    const { port, settings } = options
    this.#options = options
    this.#events = events
    this.#before = before
    const { config, cluster } = withCluster(settings.consumer, port.settings.consumer, {
      onStrangers: (strangers) => this.#refuse(strangers),
      onDenied: (denied) => this.#unassigned(denied),
    })
    this.#clusterOf = cluster
    this.#consumer = kafka.consumer(config)
    this.#feed = new Feed({
      ...{ consumer: this.#consumer, runtime: port.runtime },
      sessionMs: settings.consumer.sessionTimeout,
      events: {
        ...events,
        onLost: (partitions) => {
          this.#drop(partitions)
          events.onLost(partitions)
        },
        onFetched: (fetched) => {
          this.#queue.push(fetched)
          this.#came.resolve()
          return this.#taken.promise
        },
      },
    })
    const { CRASH, GROUP_JOIN } = this.#consumer.events
    this.#consumer.on(CRASH, ({ payload }) => this.#end(payload.error))
    this.#consumer.on(GROUP_JOIN, ({ payload }) => {
      before.memberId = payload.memberId
      before.hasOwned ||= Object.keys(payload.memberAssignment).length > 0
    })
  }

  readonly topicIds: TopicLook = (topics) => this.#ask(() => lookOf(this.#cluster)(topics))

  async connect(): Promise<void> {
    await this.#ask(() => this.#consumer.connect())
    await this.#ask(() => this.#leaveBefore())
  }

  async subscribe(topics: readonly string[]): Promise<void> {
    const { port, settings } = this.#options
    const { groupId, rackId } = settings.consumer
    const fields = { group: groupId, topics: settings.topics.map(String) }
    hideAborted(this.#cluster, outOfRangeLog(port.logger, fields, rackId))
    await this.#ask(() => this.#subscribe(topics))
    // Resolves when it has joined, or will not. kafkajs can be stopped only then.
    const running = this.#ask(() =>
      this.#consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        partitionsConsumedConcurrently: settings.partitionsConsumedConcurrently,
        eachBatch: this.#feed.eachBatch,
      }),
    )
    running.catch((error: unknown) => this.#end(error))
  }

  async startAtEnds(topics: readonly string[]): Promise<boolean> {
    const { groupId } = this.#options.settings.consumer
    return this.#ask(async () => {
      await this.#subscribe(topics)
      return startAtEnds(this.#cluster, groupId, topics)
    })
  }

  async committed(partitions: readonly Partition[]): Promise<readonly Position[]> {
    if (partitions.length === 0) return []
    const { groupId } = this.#options.settings.consumer
    const found = await this.#ask(async () => {
      const coordinator: unknown = await this.#cluster.findGroupCoordinator({ groupId })
      return (coordinator as Coordinator).offsetFetch({
        groupId,
        topics: byTopic(partitions, numbered),
      })
    })
    return positionsOf(found.responses)
  }

  oldest(partitions: readonly Partition[]): Promise<readonly Position[]> {
    return this.#offsetsAt(partitions, true)
  }

  ends(partitions: readonly Partition[]): Promise<readonly Position[]> {
    return this.#offsetsAt(partitions, false)
  }

  async seek(positions: readonly Position[]): Promise<void> {
    this.#drop(positions)
    this.#feed.seek(positions)
  }

  async fetch(): Promise<readonly Fetched[]> {
    this.#taken.resolve()
    this.#taken = Promise.withResolvers()
    if (this.#queue.length === 0) {
      const { runtime } = this.#options.port
      const cancel = runtime.setTimer(() => this.#came.resolve(), WAIT_MS, { keepAlive: false })
      await this.#came.promise
      cancel()
    }
    this.#came = Promise.withResolvers()
    return this.#queue.splice(0)
  }

  pause(partitions: readonly Partition[]): void {
    this.#feed.pause(partitions)
  }

  resume(partitions: readonly Partition[]): void {
    this.#feed.resume(partitions)
  }

  commit(positions: readonly Position[]): Promise<void> {
    return this.#ask(() => this.#feed.commit(positions))
  }

  /**
   * After the requests under way: kafkajs waits for their answers too, and the request that follows would open a connection
   * that nothing closes.
   */
  async close(): Promise<void> {
    this.#isOver = true
    this.#feed.end()
    this.#taken.resolve()
    this.#came.resolve()
    await Promise.allSettled(this.#asking)
    await this.#consumer.disconnect()
  }

  get #cluster(): Cluster {
    const cluster = this.#clusterOf()
    if (cluster === undefined) throw new TypeError('kafkajs gave its assigners no cluster')
    return cluster
  }

  #ask<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    if (this.#isOver) return Promise.reject(new Error('the consumer has ended'))
    const asking = work()
    const over = (): void => void this.#asking.delete(asking)
    this.#asking.add(asking)
    asking.then(over, over)
    return asking
  }

  #end(error: unknown): void {
    if (!this.#isOver) this.#events.onEnded(error)
  }

  #subscribe(topics: readonly string[]): Promise<void> {
    return this.#consumer.subscribe({ topics: [...topics], fromBeginning: true })
  }

  #drop(partitions: readonly Partition[]): void {
    const names = new Set(partitions.map(nameOf))
    this.#queue = this.#queue.filter((each) => !names.has(nameOf(each)))
  }

  async #offsetsAt(
    partitions: readonly Partition[],
    fromBeginning: boolean,
  ): Promise<readonly Position[]> {
    const asked = byTopic(partitions, numbered).map((each) => ({ ...each, fromBeginning }))
    return positionsOf(await this.#ask(() => this.#cluster.fetchTopicsOffset(asked as never)))
  }

  /**
   * Removes the member of the consumer before from the group. The broker waits a whole session for a crashed member, and
   * meanwhile no other member gets its partitions. This one is certainly dead.
   */
  async #leaveBefore(): Promise<void> {
    const { groupId } = this.#options.settings.consumer
    const { memberId } = this.#before
    if (memberId === undefined) return
    try {
      const coordinator: unknown = await this.#cluster.findGroupCoordinator({ groupId })
      await (coordinator as Coordinator).leaveGroup({ groupId, memberId })
    } catch (error) {
      // The session expires anyway.
      if (!isUnknownMember(error)) return
    }
    this.#before.memberId = undefined
  }

  /**
   * Two consumers that start at the same time find the group empty, and only its leader learns of the other one. The
   * broker lets the first members of a group join together (`group.initial.rebalance.delay.ms`, 3 s by default).
   */
  #refuse(strangers: readonly string[]): void {
    const { port, settings } = this.#options
    if (this.#before.hasOwned) return
    throw new ConfigurationError(sharedGroup(settings, port.settings.consumer, strangers))
  }

  /** This member leads the group, and may not describe topics that other members subscribe to. */
  #unassigned(denied: readonly string[]): void {
    const fix = 'allow Describe on these topics, then restart one member of the group'
    const text =
      'topics of other members are not assigned, because this client may not describe them'
    this.#options.port.logger.error({ denied, fix }, text)
  }
}

type Offsets = Awaited<ReturnType<Coordinator['offsetFetch']>>['responses']

const positionsOf = (offsets: Offsets): readonly Position[] =>
  withOffsets(
    offsets.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset }) => ({ topic, partition, offset: BigInt(offset) })),
    ),
  )

const numbered = ({ partition }: Partition): { readonly partition: number } => ({ partition })
