import type { Delivery, GuardEvent, HandlerContext } from '@onceward/core'
import type pg from 'pg'
import type { CaseClock } from './clock.ts'
import type { RunFact } from './history.ts'
import type { Plan } from './plan.ts'
import type { Stage } from './stage.ts'

/** What all parts of a case share. */
export interface Shared {
  readonly stage: Stage
  readonly plan: Plan
  readonly consumer: string
  readonly clock: CaseClock
  readonly runs: RunFact[]
  readonly surprises: string[]
  readonly nested: Set<number>
  readonly failures: Map<number, number>
  readonly pools: pg.Pool[]
  /** Played when an event gets a settlement, by event. */
  readonly atSettlement: Map<number, () => void>
  /** Undefined if no handler may kill the process. */
  readonly mortal: Mortal | undefined
  delivery(event: number): Delivery
}

/** What a case has whose handlers may kill their process: the next process goes on with it. */
export interface Mortal {
  readonly consumer: string
  /** Of the processes before this one. */
  readonly runs: readonly RunFact[]
  readonly failures: ReadonlyMap<number, number>
  /** Writes down what the run has done so far. */
  saved(fact: RunFact): void
  /** Writes down that the handler has failed, as soon as that is told. */
  failed(event: number): void
  /** Writes down that the other consumer has processed the event inside of a handler. */
  nested(event: number): void
  /** Writes down that this process is about to die. */
  dying(death: Death): void
}

export interface Death {
  readonly event: number
  readonly run: number
  /** The way to die, with what the parent process sees of it. */
  readonly way: string
  /** The run may have ended, so that the death hits other runs too. */
  readonly isLate: boolean
  /** The event of the run has been settled, and the broker has not got that. */
  readonly isSettled?: boolean | undefined
}

export type Single = (event: GuardEvent<unknown>, context: HandlerContext<unknown>) => unknown
export type Together = (
  events: readonly GuardEvent<unknown>[],
  context: HandlerContext<unknown>,
) => unknown

/** How PostgreSQL calls the connections of the pools that the guards make themselves. */
export const ownPoolName = (consumer: string): string => `${consumer}-own`

/** The value in words. Never throws. */
export function describe(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  } catch {
    return 'a value that cannot be read'
  }
}

/** Whether the promise settled in time. */
export async function endsWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, ms, false)
  })
  try {
    return await Promise.race([promise.then(() => true as const), late])
  } finally {
    clearTimeout(timer)
  }
}
