/** The rules of the offset fence (design.md §14). A world leaves one of them out, to show what it is for. */
export interface FenceRules {
  /** Every write compares the epoch, which each claim of the partition raises. */
  readonly epoch: boolean
  /** Every write compares the offset that it moves on from. */
  readonly comparesOld: boolean
  /** The new owner starts where the row says. Otherwise where Kafka's committed offset says. */
  readonly seeks: boolean
  /** Exceptions are written with the offset that passes them. Otherwise in a transaction of their own, afterwards. */
  readonly exceptionsInside: boolean
  /** A record that waits while later ones of its partition run becomes an exception. */
  readonly keepsWaiting: boolean
  /** Only exceptions that are settled are forgotten. */
  readonly forgetsSettled: boolean
  /** The row of an exception decides whether it runs. */
  readonly looksAtRows: boolean
  /** What is settled without a run of clean records, as marks and exceptions that have ended, is written to the row too. */
  readonly closes: boolean
  /** It is written up to the first record that is not settled. Otherwise up to the last one that is. */
  readonly closesBelow: boolean
}

/** How often each fault may happen. */
export interface FenceFaults {
  readonly die: number
  /** Kafka gives the partition to the other worker, and its owner goes on. */
  readonly zombie: number
  readonly fail: number
  /** COMMIT gets no answer. */
  readonly unknown: number
  /** Kafka's committed offset was moved ahead. */
  readonly ahead: number
  /** An operator lets the consumer run the records again from the first one on. */
  readonly reset: number
}

export const RECORDS = 3

/** Offsets, as many as there are in the partition. */
export const offsets = (): readonly number[] =>
  Array.from({ length: RECORDS }, (_, offset) => offset)

/** The row of the partition. */
export interface Place {
  readonly next: number
  /** Offsets below `next` whose rows decide. */
  readonly open: readonly number[]
}

export interface FenceRow extends Place {
  readonly epoch: number
  readonly generation: number
}

/** What a worker does with records that have no rows. */
export interface PlaceRun {
  readonly at: 'open' | 'excepts' | 'half'
  readonly members: readonly number[]
  readonly old: number
  readonly after: Place
}

export interface Owner extends FenceRow {
  readonly settled: readonly number[]
  /** The first record that Kafka brings. */
  readonly from: number
  readonly run: PlaceRun | undefined
}

/** A business transaction that holds the row of the partition. */
export interface OpenTransaction {
  readonly worker: number
  readonly generation: number
  readonly members: readonly number[]
  readonly after: Place
  /** COMMIT was sent, and nobody waits for its answer. */
  readonly isOrphan: boolean
}

export interface FenceState {
  /** Offsets that have no record, as those of marks of transactions. */
  readonly marks: readonly number[]
  readonly row: FenceRow
  readonly tx: OpenTransaction | undefined
  /** By generation and offset: d done, w waiting, x dead. */
  readonly rows: readonly (readonly ('-' | 'w' | 'd' | 'x')[])[]
  readonly effects: readonly (readonly number[])[]
  /** Undefined: has no partition, and remembers nothing. */
  readonly workers: readonly (Owner | undefined)[]
  /** Whom Kafka has given the partition to. */
  readonly assigned: number | undefined
  readonly committed: number
  readonly left: FenceFaults
}
