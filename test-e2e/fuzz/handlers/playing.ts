import type { GuardEvent, HandlerContext } from '@onceward/core'
import type { RunFact } from './history.ts'

/** A running handler, as its steps see it. */
export interface Playing {
  readonly event: GuardEvent<unknown>
  readonly context: HandlerContext<unknown>
  readonly fact: RunFact
  sql(text: string, values?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>
  /** As {@link sql}, with a text that is another one from the second look on. */
  slySql(first: string, then: string): Promise<unknown>
  /** Writes a part of the effect. */
  write(part: string): Promise<unknown>
  /** Lets the deadline of this run pass. */
  passDeadline(): void
  /** The process does nothing for longer than a lease lasts, as its clocks and the stores see it. */
  standStill(): void
  /** Ends the backend of this transaction from outside. */
  endBackend(): Promise<void>
  /** Processes a delivery inside of the handler. The handler of the other consumer plays `inside`, after its write. */
  nest(which: Nested, inside?: () => Promise<unknown>): Promise<void>
}

export type Nested = 'itself' | 'neighbour' | 'other consumer' | 'other pool'

/**
 * What follows from a step. `fine`: nothing. `aborts`: the server refuses a statement. `refused`: onceward refuses, and
 * the transaction goes on. `own`: the step says itself what follows.
 */
export type StepKind = 'fine' | 'aborts' | 'refused' | 'own'

export interface Step {
  readonly then: StepKind
  /** Where it can be played. `apart`: with SQL, where no other handler shares the transaction. */
  readonly of: 'any' | 'sql' | 'pg' | 'apart' | 'pg apart'
  readonly play: (playing: Playing) => Promise<unknown>
}
