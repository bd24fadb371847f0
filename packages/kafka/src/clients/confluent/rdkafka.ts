import { createRequire } from 'node:module'
import { ConfigurationError } from '@onceward/core'

// The part of the native API of @confluentinc/kafka-javascript that this client calls. Its own types lack a third of it.

const PACKAGE = '@confluentinc/kafka-javascript'

/** The native client reports everything through callbacks. */
export type Callback<Answer = void> = (error: unknown, answer: Answer) => void

export interface RdPartition {
  readonly topic: string
  readonly partition: number
  readonly offset?: number | undefined
}

/** Why a rebalance is told: -175 for partitions that came, -174 for partitions that go. */
export interface RdRebalance {
  readonly code: number
}

export interface RdPosition extends RdPartition {
  readonly offset: number
}

export interface RdMessage extends RdPosition {
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly timestamp: number
  /** Of the value, bytes. */
  readonly size: number
  readonly headers?: readonly Readonly<Record<string, Buffer>>[]
}

interface RdClient {
  on(event: 'event.error', listener: (error: unknown) => void): unknown
  connect(options: { readonly allTopics: boolean; readonly timeout: number }, done: Callback): void
}

export interface RdConsumer extends RdClient {
  disconnect(done: Callback): void
  on(event: 'event.error', listener: (error: unknown) => void): unknown
  on(event: 'partition.eof', listener: (end: RdPosition) => void): unknown
  isConnected(): boolean
  subscribe(topics: readonly string[]): void
  assign(partitions: readonly RdPartition[]): void
  unassign(): void
  incrementalAssign(partitions: readonly RdPartition[]): void
  incrementalUnassign(partitions: readonly RdPartition[]): void
  assignmentLost(): boolean
  rebalanceProtocol(): string
  setDefaultConsumeTimeout(ms: number): void
  setDefaultIsTimeoutOnlyForFirstMessage(is: boolean): void
  consume(most: number, done: Callback<readonly RdMessage[]>): void
  pause(partitions: readonly RdPartition[]): void
  resume(partitions: readonly RdPartition[]): void
  seek(position: RdPartition, timeoutMs: number, done: Callback): void
  commitCb(positions: readonly RdPartition[], done: Callback): void
  committed(
    partitions: readonly RdPartition[],
    timeoutMs: number,
    done: Callback<readonly RdPartition[]>,
  ): void
}

export interface RdProducer extends RdClient {
  disconnect(flushMs: number, done: Callback): void
  setPollInBackground(is: boolean): void
  produce(
    topic: string,
    partition: number | null,
    value: Buffer | null,
    key: Buffer | string | null,
    timestamp: null,
    headers: readonly Readonly<Record<string, Buffer | string>>[],
    done: Callback<unknown>,
  ): void
}

/** A failure of one topic, partition or group in an answer. */
interface Failing {
  readonly error?: unknown
}

export interface RdTopic extends Failing {
  readonly name: string
  readonly topicId: { readonly base64?: string; readonly base64str?: string }
  readonly partitions: readonly {
    readonly partition: number
    readonly replicas: readonly unknown[]
  }[]
}

interface Timed {
  readonly timeout: number
}

export interface RdAdmin {
  disconnect(): void
  listTopics(options: Timed, done: Callback<readonly string[]>): void
  describeTopics(names: readonly string[], options: Timed, done: Callback<readonly RdTopic[]>): void
  listOffsets(
    partitions: readonly {
      readonly topic: string
      readonly partition: number
      readonly offset: unknown
    }[],
    options: Timed,
    done: Callback<readonly (RdPartition & Failing)[]>,
  ): void
}

export type RdConfig = Readonly<Record<string, unknown>>

export interface Rdkafka {
  readonly KafkaConsumer: new (config: RdConfig) => RdConsumer
  readonly HighLevelProducer: new (config: RdConfig) => RdProducer
  readonly AdminClient: {
    create(config: RdConfig, listeners?: Readonly<Record<string, (event: never) => void>>): RdAdmin
    createFrom(client: RdConsumer): RdAdmin
  }
  readonly OffsetSpec: { readonly EARLIEST: unknown; readonly LATEST: unknown }
}

/**
 * Loaded at its first use: the package is optional, and its module is native.
 *
 * @throws {@link ConfigurationError}
 */
export function loadRdkafka(): Rdkafka {
  try {
    return createRequire(import.meta.url)(PACKAGE) as Rdkafka
  } catch (error) {
    throw new ConfigurationError(
      `The package ${PACKAGE} could not be loaded. Install it, and allow its install script, which downloads or ` +
        `builds its native module: \`npm install ${PACKAGE}\`, or \`npm rebuild ${PACKAGE}\`.`,
      { cause: error },
    )
  }
}

/** The answer of one call. */
export function answerOf<Answer = void>(call: (done: Callback<Answer>) => void): Promise<Answer> {
  return new Promise((resolve, reject) => {
    call((error, answer) => {
      if (error) reject(error)
      else resolve(answer)
    })
  })
}
