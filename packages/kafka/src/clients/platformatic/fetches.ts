import { CallTimeoutError } from '@onceward/core/adapter'
import type { Runtime } from '@onceward/core/ports'
import type { Consumer, MessagesStream } from '@platformatic/kafka'
import { nameOf, type Partition } from '../../offsets.ts'
import type { Fetched, Position } from '../port.ts'
import { type FetchResponse, partitionErrorsOf } from './errors.ts'
import { fetchedOf } from './records.ts'
import { hexOf } from './view.ts'

const OUT_OF_RANGE = 1
const DENIED = 29
/** How long a fetch waits for records. */
const EMPTY_MS = 500
/** A partition whose leader is not known, or whose topic is gone, is tried again. */
const REST_MS = 500
const DENIED_MS = 3_000
const READ_COMMITTED = 1
/** A fetch that has no answer for so long will have none. */
const HANGING_MS = 30_000

export interface FetchesOptions {
  readonly runtime: Runtime
  readonly consumer: Consumer
  readonly limits: {
    readonly minBytes: number
    readonly maxBytes: number
    readonly maxBytesPerPartition: number
    readonly maxWaitTime: number
  }
  /** The offset fell out of the log. Answers where to go on. */
  readonly onOutOfRange: (position: Position) => Promise<Position | undefined>
}

interface Reading extends Partition {
  offset: bigint
  isPaused: boolean
  restsUntilMs: number
}

/**
 * Reads partitions from positions of our own: the client's streams buffer records of partitions that went, start a
 * partition at 0 before they know its offset, and can pause only all partitions together.
 *
 * One request for each broker is under way at a time.
 */
export class Fetches {
  readonly #options: FetchesOptions
  readonly #reading = new Map<string, Reading>()
  readonly #ready = new Map<string, Fetched>()
  /** Brokers with a request under way, since when. */
  readonly #busy = new Map<number, number>()
  readonly #denied = new Set<string>()
  /** Whose connections are used. Those of the group must not wait for a fetch. */
  #stream: MessagesStream<Buffer, Buffer, Buffer, Buffer> | undefined
  #isLaunching = false
  #isOver = false
  #error: { readonly error: unknown } | undefined
  #wake: () => void = () => undefined

  constructor(options: FetchesOptions) {
    this.#options = options
  }

  /** Topics that this client may not read. */
  get denied(): readonly string[] {
    return [...this.#denied]
  }

  begin(stream: MessagesStream<Buffer, Buffer, Buffer, Buffer>): void {
    this.#stream = stream
    this.#launch()
  }

  end(): void {
    this.#isOver = true
    this.#wake()
  }

  fail(error: unknown): void {
    this.#error ??= { error }
    this.#wake()
  }

  seek(positions: readonly Position[]): void {
    for (const { topic, partition, offset } of positions) {
      const name = nameOf({ topic, partition })
      this.#ready.delete(name)
      this.#reading.set(name, { topic, partition, offset, isPaused: false, restsUntilMs: 0 })
    }
    this.#launch()
  }

  drop(partitions: readonly Partition[]): void {
    for (const each of partitions) {
      this.#reading.delete(nameOf(each))
      this.#ready.delete(nameOf(each))
    }
  }

  pause(partitions: readonly Partition[], isPaused: boolean): void {
    for (const each of partitions) {
      const reading = this.#reading.get(nameOf(each))
      if (reading !== undefined) reading.isPaused = isPaused
    }
    if (isPaused) return
    this.#launch()
    if (this.#ready.size > 0) this.#wake()
  }

  async take(most: number): Promise<readonly Fetched[]> {
    this.#failHanging()
    this.#launch()
    const taken = this.#taken(most)
    if (taken.length > 0 || this.#isOver) return taken
    if (this.#error === undefined) await this.#wait()
    if (this.#error !== undefined && !this.#isOver) throw this.#error.error
    return this.#taken(most)
  }

  /** Heartbeats have connections of their own, and do not tell that a fetch hangs. */
  #failHanging(): void {
    const sinceMs = Math.min(...this.#busy.values())
    if (this.#options.runtime.monotonic() - sinceMs < HANGING_MS) return
    this.fail(new CallTimeoutError('A fetch', HANGING_MS))
  }

  async #wait(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    const cancel = this.#options.runtime.setTimer(resolve, EMPTY_MS, { keepAlive: false })
    await promise
    cancel()
  }

  #taken(most: number): readonly Fetched[] {
    const taken: Fetched[] = []
    let left = most
    for (const [name, fetched] of this.#ready) {
      if (left <= 0) break
      if (this.#reading.get(name)?.isPaused !== false) continue
      const records = fetched.records.slice(0, left)
      left -= records.length
      const rest = fetched.records.slice(records.length)
      const [following] = rest
      if (following === undefined) this.#ready.delete(name)
      else this.#ready.set(name, { ...fetched, records: rest })
      const next = following === undefined ? fetched.next : BigInt(following.message.offset)
      taken.push({ ...fetched, records, next })
    }
    return taken
  }

  /** Requests what is wanted of each broker that has no request. */
  #launch(): void {
    const stream = this.#stream
    if (stream === undefined || this.#isLaunching || this.#isOver) return
    this.#isLaunching = true
    this.#ask(stream)
      .catch((error: unknown) => this.fail(error))
      .finally(() => {
        this.#isLaunching = false
      })
  }

  async #ask(stream: MessagesStream<Buffer, Buffer, Buffer, Buffer>): Promise<void> {
    const wanted = this.#wanted()
    if (wanted.length === 0) return
    const { consumer } = this.#options
    const topics = [...new Set(wanted.map(({ topic }) => topic))]
    const metadata = await consumer.metadata({ topics })
    const byNode = new Map<number, { readonly id: string; readonly reading: Reading }[]>()
    for (const reading of this.#wanted()) {
      const topic = metadata.topics.get(reading.topic)
      const leader = topic?.partitions[reading.partition]?.leader
      if (topic === undefined || leader === undefined || leader < 0) this.#rest(reading, REST_MS)
      else if (!this.#busy.has(leader)) {
        byNode.set(leader, [...(byNode.get(leader) ?? []), { id: topic.id, reading }])
      }
    }
    for (const [node, asked] of byNode) void this.#fetch(node, asked, stream)
  }

  #wanted(): readonly Reading[] {
    const nowMs = this.#options.runtime.monotonic()
    return [...this.#reading.values()].filter(
      (each) => !(each.isPaused || this.#ready.has(nameOf(each))) && nowMs >= each.restsUntilMs,
    )
  }

  async #fetch(
    node: number,
    asked: readonly { readonly id: string; readonly reading: Reading }[],
    stream: MessagesStream<Buffer, Buffer, Buffer, Buffer>,
  ): Promise<void> {
    const { consumer, limits } = this.#options
    const { maxBytesPerPartition, ...others } = limits
    const from = new Map(asked.map(({ reading }) => [nameOf(reading), reading.offset]))
    const topics = asked.map(({ id, reading: { partition, offset } }) => ({
      topicId: id,
      partitions: [
        {
          ...{ partition, fetchOffset: offset, partitionMaxBytes: maxBytesPerPartition },
          ...{ currentLeaderEpoch: -1, lastFetchedEpoch: -1 },
        },
      ],
    }))
    const names = new Map(asked.map(({ id, reading }) => [id, reading.topic]))
    this.#busy.set(node, this.#options.runtime.monotonic())
    try {
      const connectionPool = stream.connections
      const own = { node, topics, connectionPool, isolationLevel: READ_COMMITTED }
      this.#arrived(await consumer.fetch({ ...others, ...own }), names, from)
    } catch (error) {
      await this.#refused(error, names)
    } finally {
      this.#busy.delete(node)
    }
    if (this.#ready.size > 0) this.#wake()
    this.#launch()
  }

  #arrived(
    { responses }: FetchResponse,
    names: ReadonlyMap<string, string>,
    from: ReadonlyMap<string, bigint>,
  ): void {
    for (const { topicId, partitions } of responses) {
      const topic = names.get(topicId)
      if (topic === undefined) continue
      for (const answer of partitions) {
        const place = { topic, partition: answer.partitionIndex }
        const reading = this.#reading.get(nameOf(place))
        const asked = from.get(nameOf(place))
        // Another position was set, or the partition went, while the request was under way.
        if (reading === undefined || asked === undefined || reading.offset !== asked) continue
        this.#denied.delete(topic)
        const fetched = fetchedOf(place, answer, asked)
        if (fetched === undefined) continue
        reading.offset = fetched.next
        this.#ready.set(nameOf(place), { ...fetched, topicId: hexOf(topicId) })
      }
    }
  }

  /** Partitions that cannot be read rest, and the others go on. Any other error ends the consumer. */
  async #refused(error: unknown, names: ReadonlyMap<string, string>): Promise<void> {
    if (this.#isOver) return
    const refused = partitionErrorsOf(error, names)
    if (refused.length === 0) this.fail(error)
    for (const { code, ...place } of refused) {
      const reading = this.#reading.get(nameOf(place))
      if (reading === undefined) continue
      if (code === DENIED) this.#denied.add(place.topic)
      this.#rest(reading, code === DENIED ? DENIED_MS : REST_MS)
      if (code === OUT_OF_RANGE) await this.#reset(reading)
      else this.#options.consumer.clearMetadata()
    }
  }

  async #reset(reading: Reading): Promise<void> {
    const { topic, partition, offset } = reading
    try {
      const position = await this.#options.onOutOfRange({ topic, partition, offset })
      if (position === undefined || reading.offset !== offset) return
      reading.offset = position.offset
      reading.restsUntilMs = 0
    } catch (error) {
      this.fail(error)
    }
  }

  #rest(reading: Reading, restMs: number): void {
    reading.restsUntilMs = this.#options.runtime.monotonic() + restMs
  }
}
