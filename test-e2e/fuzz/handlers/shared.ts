import type { Delivery, GuardEvent, HandlerContext } from '@onceward/core'
import type pg from 'pg'
import type { CaseClock } from './clock.ts'
import type { RunFact } from './history.ts'
import type { Plan } from './plan.ts'
import type { Testbed } from './testbed.ts'

/** What all parts of a case share. */
export interface Shared {
  readonly testbed: Testbed
  readonly plan: Plan
  readonly consumer: string
  readonly clock: CaseClock
  readonly runs: RunFact[]
  readonly surprises: string[]
  readonly nested: Set<number>
  readonly failures: Map<number, number>
  readonly pools: pg.Pool[]
  delivery(event: number): Delivery
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
