import type { Behaviour, EventPlan, Plan } from '../../test-e2e/simulation/faults/plan.ts'
import { createDice } from '../../test-e2e/simulation/world/dice.ts'

/** A worker is struck when a request of that label is on its way for the nth time. */
export interface Strike {
  readonly kind: 'kill' | 'freeze'
  readonly label: 'ack>' | 'write>'
  readonly nth: number
}

export interface Scenario {
  readonly plan: Plan
  readonly strikes: readonly Strike[]
}

export const WORKERS = 2
const ORDERS = 6
/** Longer than the broker's visibility timeout: another worker gets the message meanwhile. */
export const FROZEN_MS = 12_000

/** A slow handler lets a copy of its order meet it. */
const SLOW_MS = 1_000

function behaviourOf(index: number, failing: number): Behaviour {
  if (index === 0) return { kind: 'slow', ms: SLOW_MS }
  return index === failing ? { kind: 'flaky', times: 1 } : { kind: 'ok' }
}

/** Everything about a game, from its seed: which orders are sent twice, and when its workers are struck. */
export function drawScenario(seed: number): Scenario {
  const dice = createDice(seed).apart('playground')
  // A copy of the first order arrives while its handler is still at work.
  const twice = [0, dice.from(ORDERS - 2, ORDERS - 1)]
  const failing = dice.from(1, 2)
  const events = Array.from({ length: ORDERS }, (_, index): EventPlan => {
    const key = `order-${index + 1}`
    return { key, behaviour: behaviourOf(index, failing), lane: undefined }
  })
  const plan: Plan = {
    seed,
    ...({ composition: 'inbox', transaction: 'each', broker: 'queue', policy: 'even' } as const),
    ...{ processes: WORKERS, loops: 1, batchSize: 1, maxAttempts: 3, isPlain: true },
    events,
    messages: events.flatMap((_, event) => {
      const message = { event, variant: 'plain' as const }
      return twice.includes(event) ? [message, message] : [message]
    }),
    faults: [],
  }
  const strikes: readonly Strike[] = [
    { kind: 'kill', label: 'ack>', nth: dice.from(2, 3) },
    { kind: 'kill', label: 'write>', nth: dice.from(4, 5) },
    { kind: 'freeze', label: 'write>', nth: dice.from(6, 7) },
  ]
  return { plan, strikes }
}
