import type { GuardPort } from '@onceward/core/adapter'
import { nameOf, type Partition } from '../../offsets.ts'
import { claimOf, refusalOutside } from '../fences.ts'
import type { Position, PulledConsumer } from '../port.ts'
import type { Start } from './pulled-batch.ts'

export interface ClaimsOptions {
  readonly port: Pick<GuardPort, 'claimPartition' | 'logger' | 'settings'>
  readonly groupId: string
  /** The topics as they were last looked at. */
  readonly topics: {
    readonly clusterId: string | undefined
    readonly ids: ReadonlyMap<string, string>
  }
}

/** Whoever knows where logs begin and end. */
type Asked = Pick<PulledConsumer, 'oldest' | 'ends'>

interface Refused extends Partition {
  readonly refusal: string
}

const READ_ON = 'a partition that was refused is read'
const NOT_READ =
  'a partition is not read, because its stored offset does not fit its log; the other partitions are'

/**
 * With `identity: 'offsets'`: partitions are read from where the inbox says. One whose offset does not fit its log is
 * refused: it waits until an operator says where to start, and the others are read.
 */
export class Claims {
  readonly #options: ClaimsOptions
  readonly #refused = new Map<string, Refused>()

  constructor(options: ClaimsOptions) {
    this.#options = options
  }

  get refused(): readonly Partition[] {
    return [...this.#refused.values()]
  }

  isRefused(partition: Partition): boolean {
    return this.#refused.has(nameOf(partition))
  }

  /** For `health()`: why partitions are not read, and what to run. */
  get notice(): string | undefined {
    const [first, ...others] = this.#refused.values()
    if (first === undefined) return undefined
    if (others.length === 0) return first.refusal
    return `${first.refusal} The log says the same of ${others.map(nameOf).join(', ')}.`
  }

  /** Claims partitions, and answers those that may be read. The offset of the group is a hint. */
  async claim(asked: Asked, starts: readonly Start[]): Promise<readonly Start[]> {
    const { groupId, port, topics } = this.#options
    const claiming = starts.map(async (start): Promise<readonly Start[]> => {
      const topic = { clusterId: topics.clusterId, topicId: topics.ids.get(start.topic) }
      const fence = await claimOf({ groupId, port }, start, topic, Number(start.offset))
      if ('refusal' in fence) {
        this.#refuse(start, fence.refusal)
        return []
      }
      const offset = BigInt(fence.from)
      const isCommitted = start.isCommitted && start.offset === offset
      return [{ ...start, offset, isCommitted, fence }]
    })
    const claimed = (await Promise.all(claiming)).flat()
    const outside = new Set((await this.refuseOutside(asked, claimed)).map(nameOf))
    return claimed.filter((each) => !outside.has(nameOf(each)))
  }

  /**
   * Refuses partitions whose log does not have the place that is read next, and answers them.
   *
   * @param positions - What is read next.
   */
  async refuseOutside(asked: Asked, positions: readonly Position[]): Promise<readonly Partition[]> {
    if (positions.length === 0) return []
    const [oldest, ends] = await Promise.all([asked.oldest(positions), asked.ends(positions)])
    const [from, to] = [oldest, ends].map(
      (all) => new Map(all.map((each) => [nameOf(each), Number(each.offset)])),
    )
    const { consumer } = this.#options.port.settings
    return positions.filter((each) => {
      const name = nameOf(each)
      const log = { oldest: from?.get(name) ?? 0, end: to?.get(name) ?? Number.POSITIVE_INFINITY }
      const refusal = refusalOutside(consumer, each, log)
      if (refusal !== undefined) this.#refuse(each, refusal)
      return refusal !== undefined
    })
  }

  /** They are read from now on. */
  accepted(partitions: readonly Partition[]): void {
    for (const { topic, partition } of partitions) {
      if (!this.#refused.delete(nameOf({ topic, partition }))) continue
      this.#options.port.logger.info({ topic, partition }, READ_ON)
    }
  }

  /** They went to other members. */
  forget(partitions: readonly Partition[]): void {
    for (const each of partitions) this.#refused.delete(nameOf(each))
  }

  clear(): void {
    this.#refused.clear()
  }

  #refuse({ topic, partition }: Partition, refusal: string): void {
    const name = nameOf({ topic, partition })
    const isNew = this.#refused.get(name)?.refusal !== refusal
    this.#refused.set(name, { topic, partition, refusal })
    const { logger, settings } = this.#options.port
    const fields = { consumer: settings.consumer, topic, partition, reason: refusal }
    if (isNew) logger.error(fields, NOT_READ)
  }
}
