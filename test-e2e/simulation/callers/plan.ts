import type { Behaviour, Plan } from '../faults/plan.ts'
import { createDice, type Dice } from '../world/dice.ts'

/** A client of a route: it sends one payload under one key until it has an answer. */
export interface ClientPlan {
  /** Index of its key in `events`. */
  readonly event: number
  /** Another payload under the same key is another request. */
  readonly variant: 'plain' | 'other'
  readonly startsAtMs: number
}

/** What goes wrong at a step. `hang-up`: a client gives its request up, and sends it again. */
export interface CallerFault {
  readonly kind:
    | 'crash'
    | 'freeze'
    | 'hang-up'
    | 'pg-cut'
    | 'pg-restart'
    | 'lease-cut'
    | 'lease-down'
    | 'lease-flush'
  readonly step: number
  /** Index of the process or the client. */
  readonly target: number
  readonly ms: number
}

export interface CallerPlan extends Omit<Plan, 'faults'> {
  readonly clients: readonly ClientPlan[]
  readonly faults: readonly CallerFault[]
}

/** Everything about one schedule of clients but its interleaving, from its seed. */
export function drawCallerPlan(seed: number): CallerPlan {
  const dice = createDice(seed).apart('callers')
  const composition = dice.pick(['inbox', 'inbox+leases', 'inbox+leases', 'leases'] as const)
  const events = Array.from({ length: dice.pick([1, 1, 2, 3]) }, (_, index) => ({
    key: `e${index}`,
    behaviour: drawBehaviour(dice, composition),
    lane: undefined,
  }))
  return {
    seed,
    composition,
    transaction: 'each',
    broker: 'queue',
    processes: dice.pick([1, 2, 2, 3]),
    loops: 1,
    batchSize: 1,
    maxAttempts: 3,
    events,
    messages: [],
    policy: dice.pick(['even', 'even', 'sticky', 'starve']),
    clients: events.flatMap((_, event) => drawClients(dice, event)),
    faults: drawFaults(dice, composition),
  }
}

/** Each of them ends with an answer, if its client asks often enough. */
function drawBehaviour(dice: Dice, composition: Plan['composition']): Behaviour {
  const times = dice.from(1, 3)
  // Without a transaction, a statement cannot fail.
  const code = composition === 'leases' ? 'flaky' : dice.pick(['serialization', 'unique'] as const)
  return dice.pick<Behaviour>([
    { kind: 'ok' },
    { kind: 'ok' },
    { kind: 'slow', ms: dice.pick([100, 1_000, 4_500]) },
    { kind: 'flaky', times },
    { kind: 'flaky', times },
    { kind: code, times },
    { kind: 'kills', times: dice.pick([1, 2]) },
  ])
}

function drawClients(dice: Dice, event: number): readonly ClientPlan[] {
  return Array.from({ length: dice.pick([1, 2, 2, 3]) }, (_, index) => ({
    event,
    variant: index > 0 && dice.chance(0.25) ? 'other' : 'plain',
    startsAtMs: index === 0 ? 0 : dice.pick([0, 0, 50, 500, 5_000]),
  }))
}

function drawFaults(dice: Dice, composition: Plan['composition']): readonly CallerFault[] {
  const kinds: [CallerFault['kind'], ...CallerFault['kind'][]] = [
    ...(['crash', 'crash', 'freeze', 'hang-up', 'hang-up', 'hang-up'] as const),
  ]
  if (composition !== 'leases') kinds.push('pg-cut', 'pg-cut', 'pg-restart')
  if (composition !== 'inbox') kinds.push('lease-cut', 'lease-down')
  // A lease store that is the truth may not lose it.
  if (composition === 'inbox+leases') kinds.push('lease-flush')
  return Array.from({ length: dice.pick([0, 1, 1, 2, 3, 5]) }, () => ({
    kind: dice.pick(kinds),
    step: dice.below(80),
    target: dice.below(3),
    ms: dice.pick([200, 2_000, 7_000]),
  }))
}
