import type { EventId, EventKey } from './brands.ts'

/** Offsets from the first one to the one before the second. */
export type OffsetRange = readonly [from: number, end: number]

/** A partition that a consumer was given, in the words of its adapter. */
export interface PartitionClaim {
  /** Unique among the partitions of the consumer, and the same for every owner. */
  readonly key: string
  /** What the keys of its events begin with. Changes when the partition is made anew and its offsets begin again. */
  readonly place: string
  /**
   * What the adapter knows the partition by. A stored partition is another one if a field differs. A field that is empty
   * on one side is unknown, and differs from nothing.
   */
  readonly of: PartitionFacts
  /** The name of the partition, for operators. It is stored and not compared. */
  readonly name: PartitionFacts
  /** The first offset, if the consumer has never had the partition. */
  readonly startsAt: number
}

export type PartitionFacts = Readonly<Record<string, string>>

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

/** `other`: the stored partition is another one. Nothing is claimed. */
export type FenceClaimAnswer =
  | { readonly kind: 'claimed'; readonly state: FenceState }
  | OtherPartition

export interface OtherPartition {
  readonly kind: 'other'
  readonly stored: Pick<PartitionClaim, 'of'> & Pick<FenceState, 'next'>
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

/** `no-offsets`: the inbox of the guard keeps none. */
export type PartitionAnswer =
  | { readonly kind: 'claimed'; readonly fence: PartitionFence }
  | OtherPartition
  | { readonly kind: 'no-offsets' }

/** The place of a record in its partition, if the place is the identity of its event. */
export interface DeliveryPlace {
  readonly fence: PartitionFence
  /** The offset behind the record before it: between the two, the partition has no records. */
  readonly from: number
  readonly offset: number
}
