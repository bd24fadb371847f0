import type { Delivery, Guard, Settlement } from '@onceward/core'
import { until } from '@onceward/testing'
import { type Billing, orderPlaced } from '../traps/billing.ts'

/** A minimal broker: delivers a message again until it is acked or dead-lettered. */
export async function settled(guard: Guard, delivery: Delivery): Promise<Settlement> {
  return until(
    async () => {
      const settlement = await guard.process(delivery)
      return settlement.kind === 'defer' || settlement.kind === 'abandon' ? undefined : settlement
    },
    { deadlineMs: 60_000, everyMs: 100 },
  )
}

export interface Storm {
  readonly billing: Billing
  /** Guards of consumer `billing` that share the deliveries, like several processes. */
  readonly guards: readonly Guard[]
  /** One round of damage to Redis. Called again when it has ended. */
  readonly hurt: () => Promise<unknown>
  /** Rounds of damage. @defaultValue at least two, and as many as fit while the load runs */
  readonly rounds?: number
}

const LEAST_EVENTS = 400
const AT_ONCE = 10

/**
 * Delivers ten events at a time, three concurrent copies of each to all guards, while Redis is damaged. Goes on
 * until all rounds of damage are over.
 *
 * @returns how many effects are lost and doubled, counted in Postgres.
 */
export async function storm(storm: Storm): Promise<{ lost: number; doubled: number }> {
  const { billing, guards, hurt, rounds } = storm
  const least = rounds ?? 2
  for (const guard of guards) await guard.process(orderPlaced('order-0'))
  let isOver = false
  let hurts = 0
  const hurting = (async () => {
    const goesOn = (): boolean => hurts < least || (rounds === undefined && !isOver)
    for (; goesOn(); hurts += 1) await hurt()
  })()
  let events = 1
  try {
    for (; events < LEAST_EVENTS || hurts < least; events += AT_ONCE) {
      const deliveries = Array.from({ length: AT_ONCE * 3 }, (_, index) =>
        orderPlaced(`order-${events + (index % AT_ONCE)}`),
      )
      await Promise.all(
        deliveries.map((delivery, index) =>
          settled(guards[index % guards.length] as Guard, delivery),
        ),
      )
    }
  } finally {
    isOver = true
    await hurting
  }
  const distinct = Number(await billing.value('select count(distinct key) from charges'))
  return { lost: events - distinct, doubled: (await billing.charges()) - distinct }
}

export const breath = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms))
