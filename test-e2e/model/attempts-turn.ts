import type { AttemptsState, AttemptsWorld, Fiber, Process } from './attempts-state.ts'

/** One fiber, and how it changes the state. */
export interface Turn {
  readonly state: AttemptsState
  readonly world: AttemptsWorld
  readonly process: Process
  readonly slot: number
  readonly fiber: Fiber
  /** Events of the part that it works at. */
  readonly events: readonly number[]
  /** A row of these is held by another transaction. */
  readonly isBlocked: boolean
  readonly step: (
    label: string,
    change: (after: AttemptsState, fiber: Fiber, process: Process) => void,
    isFault?: boolean,
  ) => void
}
