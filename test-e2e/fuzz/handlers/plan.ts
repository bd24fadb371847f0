/** What a handler does before it ends: a name of `STEPS`. */
export type StepName = string

/** What a handler answers in the end: a name of `ENDS`. */
export type EndName = string

/** A case: plain data, so that it can be printed and made smaller. */
export interface Plan {
  readonly driver: 'pg' | 'kysely' | 'memory'
  /** `together`: a handler of batches. */
  readonly mode: 'each' | 'batch' | 'together'
  readonly leases: 'none' | 'memory' | 'postgres' | 'redis'
  /** The guards make their pools themselves, from a connection string. On pg alone. */
  readonly hasOwnPool: boolean
  readonly concurrency: number
  readonly attempts: number
  /** Guards of the consumer, each with a pool of its own. All get every delivery at the same time. */
  readonly workers: number
  /** Deliveries in one call. */
  readonly chunk: number
  /** Whether the calls of a round run at the same time. */
  readonly isAtOnce: boolean
  readonly events: readonly EventPlan[]
}

export interface EventPlan {
  readonly copies: number
  readonly lane?: number | undefined
  /** What the runs of the handler do, the first one first. Later runs are clean. */
  readonly runs: readonly RunPlan[]
  /** Later runs do what the last one does. */
  readonly isForEver: boolean
}

export interface RunPlan {
  readonly steps: readonly StepPlan[]
  readonly end: EndName
}

export interface StepPlan {
  readonly step: StepName
  /** The handler goes on after an error of the step. */
  readonly isCaught: boolean
  /** After this many parts of the effect: 0, 1 or 2. */
  readonly after: number
}

export const CLEAN: RunPlan = { steps: [], end: 'nothing' }

export function runOf({ runs, isForEver }: EventPlan, run: number): RunPlan {
  return runs[run - 1] ?? (isForEver ? (runs.at(-1) ?? CLEAN) : CLEAN)
}
