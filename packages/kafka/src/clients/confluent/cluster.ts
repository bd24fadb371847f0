import type { Partition } from '../../offsets.ts'
import type { ClusterView, Position, TopicIds } from '../port.ts'
import { confluentError } from './errors.ts'
import { answerOf, type Callback, type RdAdmin, type Rdkafka, type RdTopic } from './rdkafka.ts'

/** Of one request. */
export const CALL_MS = 5_000
const timed = (): { readonly timeout: number } => ({ timeout: CALL_MS })

/** Which end of a partition's log. */
export type End = 'EARLIEST' | 'LATEST'

/** Questions to a cluster through the native admin client. Each rejects with a `ConfluentError`. */
export class Cluster implements ClusterView {
  readonly #rdkafka: Pick<Rdkafka, 'OffsetSpec'>
  readonly #admin: RdAdmin
  /** Of the requests that are under way. */
  readonly #calls: (call: Promise<unknown>) => void

  constructor(
    rdkafka: Pick<Rdkafka, 'OffsetSpec'>,
    admin: RdAdmin,
    onCall: (call: Promise<unknown>) => void = () => undefined,
  ) {
    this.#rdkafka = rdkafka
    this.#admin = admin
    this.#calls = onCall
  }

  async unseen(topics: readonly string[]): ReturnType<ClusterView['unseen']> {
    const { denied, missing } = await this.topicIds(topics)
    return { missing: [...missing], denied: [...denied] }
  }

  topicNames(): Promise<readonly string[]> {
    return this.#ask((done) => this.#admin.listTopics(timed(), done))
  }

  /** The native client cannot ask for settings of topics. */
  topicConfigs(): ReturnType<ClusterView['topicConfigs']> {
    return Promise.resolve(new Map())
  }

  async replicas(topic: string): Promise<readonly number[]> {
    const found = await this.#describe([topic])
    return found.flatMap(({ partitions }) => partitions.map(({ replicas }) => replicas.length))
  }

  /** Not asked: when a coordinator is not ready yet, `describeGroups` of 1.10 ends the process with SIGSEGV. */
  consumersOf(): Promise<readonly (string | undefined)[]> {
    return Promise.resolve([])
  }

  /** @param asked - Names, or `all` that this client may describe. */
  async topicIds(asked: readonly string[] | 'all'): Promise<TopicIds> {
    const names = asked === 'all' ? await this.topicNames() : asked
    const missing = new Set<string>()
    const denied = new Set<string>()
    const ids = new Map<string, string>()
    for (const { error, name, topicId } of await this.#describe(names)) {
      const type = isFailure(error) ? confluentError(error).type : undefined
      if (type === undefined) ids.set(name, hexOf(topicId))
      else if (type === 'UNKNOWN_TOPIC_OR_PARTITION') missing.add(name)
      else if (type === 'TOPIC_AUTHORIZATION_FAILED') denied.add(name)
      else refuse(error)
    }
    return { clusterId: undefined, ids, missing, denied }
  }

  async partitionsOf(topics: readonly string[]): Promise<readonly Partition[]> {
    const found = await this.#describe(topics)
    return found.flatMap(({ name, partitions }) =>
      partitions.map(({ partition }) => ({ topic: name, partition })),
    )
  }

  /** Where the logs begin or end. */
  async endsOf(partitions: readonly Partition[], end: End): Promise<readonly Position[]> {
    if (partitions.length === 0) return []
    const offset = this.#rdkafka.OffsetSpec[end]
    const asked = partitions.map(({ topic, partition }) => ({ topic, partition, offset }))
    const found = await this.#ask<Answer<RdAdmin['listOffsets']>>((done) =>
      this.#admin.listOffsets(asked, timed(), done),
    )
    for (const { error } of found) refuse(error)
    return found.map(({ topic, partition, offset = 0 }) => ({
      ...{ topic, partition, offset: BigInt(offset) },
    }))
  }

  async #describe(names: readonly string[]): Promise<readonly RdTopic[]> {
    if (names.length === 0) return []
    return this.#ask((done) => this.#admin.describeTopics(names, timed(), done))
  }

  async #ask<Value>(call: (done: Callback<Value>) => void): Promise<Value> {
    const asking = answerOf(call)
    this.#calls(asking)
    try {
      return await asking
    } catch (error) {
      throw confluentError(error)
    }
  }
}

/** What a method of the admin client answers. */
type Answer<Method> = Method extends (...args: [...infer _, Callback<infer Value>]) => unknown
  ? Value
  : never

/** As the other clients write it. */
const hexOf = ({ base64, base64str = '' }: RdTopic['topicId']): string =>
  Buffer.from(base64 ?? base64str, 'base64').toString('hex')

const isFailure = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && Reflect.get(error, 'code') !== 0

function refuse(error: unknown): void {
  if (isFailure(error)) throw confluentError(error)
}
