import type { Settlement } from '@onceward/core'
import type { EndKind } from './ends.ts'
import type { Plan } from './plan.ts'

/** What one run of a handler did. Its steps write here. */
export interface RunFact {
  readonly event: number
  /** 1 for the first run of the event. */
  readonly run: number
  /** Runs of one call of a handler of batches have the same number. */
  readonly call: number
  readonly attempt: number
  /** Verdicts about the event that were reported before the call of the handler. */
  readonly failuresBefore: number
  /** The payload and the headers were those of the delivery. */
  readonly isIntact: boolean
  /** What the session looked like when the handler began. Undefined without SQL. */
  seen?: Seen | undefined
  /** The parts of the effect that a commit brings. */
  readonly parts: string[]
  /** Parts that were written when that was no longer allowed. */
  readonly late: string[]
  /** Why no part may be committed. */
  doomed?: string | undefined
  /** Whether the run may end this way or that. */
  isLoose?: boolean | undefined
  /** Its connection was ended. */
  isLost?: boolean | undefined
  hasHung?: boolean | undefined
  /** It ended its transaction by itself, with the parts so far. */
  endedItself?: boolean | undefined
  /** No further statement can run. */
  blocked?: boolean | undefined
  unawaited?: unknown
  /** The delivery may have run before. */
  readonly isRedelivered?: boolean | undefined
  /** The handler has returned or thrown. */
  isOver?: boolean | undefined
  end?: EndKind | undefined
  /** Of the value that it returned, as JSON. */
  result?: string | undefined
}

export interface Seen {
  readonly role: string
  readonly user: string
  readonly searchPath: string
  readonly tenant: string
  readonly pid: number
}

export interface Settled {
  readonly event: number
  readonly round: number
  readonly settlement: Settlement
}

export interface EffectRow {
  readonly id: number
  readonly consumer: string
  readonly event: number
  readonly run: number
  readonly part: string
}

/** The rows of onceward about one event. */
export interface StoredState {
  readonly event: number
  readonly state: string | null
  readonly reason: string | null
  readonly attempt: number | null
  readonly hasFailedRow: boolean
}

/** All that happened in a case, for the judge. */
export interface History {
  readonly plan: Plan
  readonly runs: readonly RunFact[]
  readonly settled: readonly Settled[]
  /** The delivery of each event after all had ended. */
  readonly again: readonly Settled[]
  /** Undefined for the memory inbox. */
  readonly rows: readonly EffectRow[] | undefined
  readonly states: readonly StoredState[] | undefined
  /** Events that another consumer processed inside of a handler. */
  readonly nested: readonly number[]
  /** What was left behind, in words. */
  readonly left: readonly string[]
  /** What should not have happened, in words. */
  readonly surprises: readonly string[]
  /** Events that had not ended after the last round. */
  readonly unended: readonly number[]
}
