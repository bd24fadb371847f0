import type { History, RunFact, Settled } from '../handlers/history.ts'
import type { Stored } from '../handlers/leftovers.ts'
import type { Death } from '../handlers/shared.ts'
import type { KillPlan } from './plan.ts'

/** A run, and where it stands in the journal of its process. */
export interface PlayedRun extends RunFact {
  readonly process: number
  /** Line at which it began. */
  readonly beganAt: number
  /** Line at which its handler had returned or thrown. Undefined if it never did. */
  readonly overAt: number | undefined
}

/** One process of a case. */
export interface ProcessFact {
  readonly how: NodeJS.Signals | number | null
  /** It played to its end, and looked at what it left behind. */
  readonly isFinished: boolean
  /** Every time that it was about to die. An error that nobody handles may let others go first. */
  readonly deaths: readonly Death[]
  readonly settled: readonly Settled[]
  /** What was stored when it had ended. */
  readonly stored: Stored
}

/** All that happened in a case, for the judge. */
export interface KillHistory extends History {
  readonly plan: KillPlan
  readonly runs: readonly PlayedRun[]
  readonly processes: readonly ProcessFact[]
}
