import type { GuardPort } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { KafkaRecord } from '../delivery.ts'
import type { Partition } from '../offsets.ts'
import type { ConsumerSettings } from '../options.ts'
import type { RecordSender } from './producers.ts'

// The adapter uses a client library only through this port, and its other files name none.

/** A client of Kafka, as `consumeKafka` takes it: made by `platformatic(…)` or `confluent(…)`, or around kafkajs. */
export interface KafkaClientPort {
  /** As its package is called. */
  readonly name: string
  /** @throws {@link ConfigurationError} for options of `consumeKafka` that only another client has. */
  readonly check: (settings: ConsumerSettings) => void
  /** Asks the cluster on a connection of its own, in bounded time. Rejects with an error of the client. */
  readonly ask: <Answer>(
    ask: (cluster: ClusterView) => Promise<Answer>,
    options: AskOptions,
  ) => Promise<Answer>
  /** For one consumption, whose consumers are made one after the other. */
  readonly consumers: () => CreatePulled
  /** A producer with the settings of this client, for dead letters whose `producer` was left out. */
  readonly createSender?: (() => OwnSender) | undefined
}

export interface AskOptions {
  readonly runtime: Runtime
  /** For a client that needs one for each connection. No group is joined. */
  readonly groupId: string
}

/** A sender that connects by itself. */
export interface OwnSender extends RecordSender {
  close(): Promise<void>
}

/** What checks and the command line ask of a cluster. Each call rejects with an error that `classifyError` knows. */
export interface ClusterView {
  /** Those of the topics that do not exist, and those that this client may not describe. */
  unseen(topics: readonly string[]): Promise<Unseen>
  /** Names of all topics that this client may describe. */
  topicNames(): Promise<readonly string[]>
  /** Values of settings, by topic and name. */
  topicConfigs(topics: readonly string[], names: readonly string[]): Promise<TopicConfigs>
  /** The number of replicas of each partition. */
  replicas(topic: string): Promise<readonly number[]>
  /** The guard's consumers of the group's members, as far as they say it. */
  consumersOf(groupId: string): Promise<readonly (string | undefined)[]>
}

export interface Unseen {
  readonly missing: readonly string[]
  /** Topics that this client may not describe. They may not exist either. */
  readonly denied: readonly string[]
}

export type TopicConfigs = ReadonlyMap<string, ReadonlyMap<string, string>>

/** The next offset to be read, or to be committed: every record before it is done. */
export interface Position extends Partition {
  readonly offset: bigint
}

/** Records of one partition, in order. */
export interface Fetched extends Partition {
  readonly records: readonly KafkaRecord[]
  /** Behind the last of them; further if records follow that no consumer sees, as marks of transactions. */
  readonly next: bigint
  /** Of the topic that they were read from. Undefined if the client does not tell it. */
  readonly topicId?: string | undefined
}

/** A consumer that is asked for records. It is used once: after an error another one is made. */
export interface PulledConsumer {
  /** What it does not read although it runs. */
  readonly notice?: string | undefined
  /** Connects and joins nothing yet: the other requests can be made from here on. */
  connect(): Promise<void>
  /** Subscribes and begins to join the group. The assignment comes later, by {@link PulledEvents}. */
  subscribe(topics: readonly string[]): Promise<void>
  /** Topics with their ids; by name. Undefined if the broker does not tell ids. */
  readonly topicIds: TopicLook
  /** Offsets of the group; partitions without one are left out. */
  committed(partitions: readonly Partition[]): Promise<readonly Position[]>
  /** The oldest offset in the log of each partition. */
  oldest(partitions: readonly Partition[]): Promise<readonly Position[]>
  /** Behind the newest record in the log of each partition. */
  ends(partitions: readonly Partition[]): Promise<readonly Position[]>
  /** Lets a group without any offset start at the present ends. Called before {@link subscribe}; false if it is too late. */
  startAtEnds(topics: readonly string[]): Promise<boolean>
  /** Where partitions are read next. Records that were fetched before are not given any more. */
  seek(positions: readonly Position[]): Promise<void>
  /** Takes at most this many records of partitions that are not paused. Resolves with none after half a second without any. */
  fetch(most: number): Promise<readonly Fetched[]>
  /** From now on {@link fetch} gives none of these partitions. */
  pause(partitions: readonly Partition[]): void
  resume(partitions: readonly Partition[]): void
  /** As this member of this generation. Rejects with an error that classifies as `rebalance` if it is over. */
  commit(positions: readonly Position[]): Promise<void>
  /** Leaves the group and disconnects. */
  close(): Promise<void>
}

/** What such a consumer tells. */
export interface PulledEvents {
  /**
   * The group was joined: these partitions came, or none. Nothing of them is fetched before the answer, which has called
   * {@link PulledConsumer.seek} for each. Never rejects.
   *
   * @param isNewMember - The member has a new id, so others may have had all of its partitions meanwhile.
   */
  readonly onAssigned: (partitions: readonly Partition[], isNewMember: boolean) => Promise<void>
  /**
   * These partitions will go. The client gives them back when the answer comes: running handlers get some seconds, and
   * what is done is committed. A client that cannot wait calls {@link onLost}.
   */
  readonly onRevoked: (partitions: readonly Partition[]) => Promise<void>
  /** Other members may have these partitions already: nothing is committed any more. */
  readonly onLost: (partitions: readonly Partition[]) => void
  /** A rebalance began or ended. */
  readonly onHeld: (isHeld: boolean) => void
  /** The broker answered a heartbeat. */
  readonly onAnswered: () => void
  /** The consumer is over. */
  readonly onEnded: (error: unknown) => void
}

export interface PulledOptions {
  readonly port: GuardPort
  readonly settings: ConsumerSettings
}

/** How a consumer is made. */
export type CreatePulled = (options: PulledOptions, events: PulledEvents) => PulledConsumer

/** Asks for topics by name, or for all that this client may describe. */
export type TopicLook = (topics: readonly string[] | 'all') => Promise<TopicIds | undefined>

/** Identifies topics beyond their names. */
export interface TopicIds extends Record<'missing' | 'denied', ReadonlySet<string>> {
  readonly clusterId: string | undefined
  /** By name, of the topics that could be read. */
  readonly ids: ReadonlyMap<string, string>
}
