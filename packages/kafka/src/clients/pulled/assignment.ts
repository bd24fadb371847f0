import { nameOf, type Partition } from '../../offsets.ts'
import type { Position, PulledEvents } from '../port.ts'

/** What a join, or an answer to a heartbeat, has changed. */
export interface Change {
  readonly gone: readonly Partition[]
  readonly came: readonly Partition[]
  /** The member has a new id, so others may have had all of its partitions meanwhile: all of them went, and came. */
  readonly isNewMember: boolean
}

/** The partitions of a member, as its group last said. */
export class Assignment {
  memberId: string | undefined
  /** Resolves when the changes so far have been told. */
  told: Promise<void> = Promise.resolve()
  readonly #events: Pick<PulledEvents, 'onAssigned' | 'onLost'>
  #owned: ReadonlyMap<string, Partition> = new Map()

  constructor(events: Pick<PulledEvents, 'onAssigned' | 'onLost'>) {
    this.#events = events
  }

  get owned(): readonly Partition[] {
    return [...this.#owned.values()]
  }

  owns(partition: Partition): boolean {
    return this.#owned.has(nameOf(partition))
  }

  /** Replaces the partitions. The caller gives up those that went, and then calls {@link tell}. */
  change(memberId: string, partitions: readonly Partition[]): Change {
    const isNewMember = this.memberId !== undefined && memberId !== this.memberId
    const before = this.#owned
    this.memberId = memberId
    this.#owned = new Map(partitions.map((each) => [nameOf(each), each]))
    return {
      gone: [...before.values()].filter((each) => isNewMember || !this.owns(each)),
      came: partitions.filter((each) => isNewMember || !before.has(nameOf(each))),
      isNewMember,
    }
  }

  /** Tells of a change when those before it were told. */
  tell({ came, gone, isNewMember }: Change): void {
    this.told = this.told.then(async () => {
      // The change before may have brought some of them only now.
      if (gone.length > 0) this.#events.onLost(gone)
      const still = came.filter((each) => this.owns(each))
      await this.#events.onAssigned(still, isNewMember)
    })
  }

  /** The consumer has no partitions any more. */
  clear(): void {
    this.#owned = new Map()
  }
}

/** Topics with their partitions, as requests list them. */
export const byTopic = <Each extends Partition, Listed>(
  partitions: readonly Each[],
  toListed: (each: Each) => Listed,
): { readonly topic: string; readonly partitions: Listed[] }[] =>
  [...Map.groupBy(partitions, ({ topic }) => topic)].map(([topic, each]) => ({
    topic,
    partitions: each.map(toListed),
  }))

/** As clients tell a member's partitions. */
export const partitionsOf = (
  topics: Iterable<readonly [topic: string, partitions: readonly number[]]>,
): readonly Partition[] =>
  [...topics].flatMap(([topic, numbers]) => numbers.map((partition) => ({ topic, partition })))

/** Kafka answers a negative offset for a partition that has none. */
export const withOffsets = (positions: readonly Position[]): readonly Position[] =>
  positions.filter(({ offset }) => offset >= 0n)
