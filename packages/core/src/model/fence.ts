import type { EventId, EventKey } from './brands.ts'

/** Offsets from the first one to the one before the second. */
export type OffsetRange = readonly [from: number, end: number]

/** A partition that a member of a group was given. */
export interface PartitionClaim {
  /** Empty if the client does not tell it. */
  readonly clusterId: string
  /** Changes when a topic is created again. */
  readonly topicId: string
  readonly topic: string
  readonly partition: number
  readonly groupId: string
  /** The first offset, if the consumer has never had the partition. */
  readonly startsAt: number
}

/** What a store keeps of a partition, for all its records together. */
export interface FenceState {
  /** Raised by every claim: an owner with another epoch was replaced. */
  readonly epoch: number
  /** Raised by every reset: the records that follow are other events than before. */
  readonly generation: number
  /** Every record below it is done, except for those in `open`. */
  readonly next: number
  /** Records below `next` whose rows decide, in order. Most partitions have none. */
  readonly open: readonly OffsetRange[]
}

/** A change of the stored state. It changes nothing if another owner has claimed the partition, or `old` does not match. */
export interface FenceMove {
  readonly id: EventId
  readonly epoch: number
  /** The `next` that this owner knows. */
  readonly old: number
  readonly next: number
  readonly open: readonly OffsetRange[]
}

/** `other`: the stored partition is of another cluster, topic or group. Nothing is claimed. */
export type FenceClaimAnswer =
  | { readonly kind: 'claimed'; readonly state: FenceState }
  | {
      readonly kind: 'other'
      readonly stored: Pick<PartitionClaim, 'clusterId' | 'topicId' | 'groupId'> &
        Pick<FenceState, 'next'>
    }

/** Where an inbox keeps the offsets of partitions. */
export interface OffsetStore {
  /** Raises the epoch, which waits for an open transaction of the owner before, in bounded time. */
  claim(id: EventId, claim: PartitionClaim): Promise<FenceClaimAnswer>
  /** Moves outside of a business transaction. Answers the state afterwards, moved or not. Undefined if it is gone. */
  move(move: FenceMove): Promise<FenceState | undefined>
}

/** A claimed partition, as an adapter uses it. */
export interface PartitionFence {
  /** The first offset to read. */
  readonly from: number
  /** The consumer has never had the partition before. */
  readonly isFirst: boolean
  /** Another member has claimed the partition, so nothing of it runs here any more. */
  readonly isLost: boolean
  /** Whether the record needs no run: its place says that it is done. */
  isDone(offset: number): boolean
  /** The key of the event at that place. */
  keyOf(offset: number): EventKey
  /** Every record below is settled. */
  settledTo(offset: number): void
  /**
   * Stores how far that is, if the store does not say so: transactions of clean records do, but marks of transactions,
   * skipped and refused records and those that ran by their rows have none.
   *
   * @throws {@link StoreUnavailableError}
   */
  store(): Promise<void>
  /** The same, unless the stored state has changed since the last call: then it may change again. */
  storeIfQuiet(): Promise<void>
}

/** The partition is not the one whose offsets are stored. Nothing is claimed. */
export interface PartitionRefusal {
  /** Why, and what to run. */
  readonly refusal: string
}

/** The place of a record in its partition, if the place is the identity of its event. */
export interface DeliveryPlace {
  readonly fence: PartitionFence
  /** The offset behind the record before it: between the two, the partition has no records. */
  readonly from: number
  readonly offset: number
}
