import { createDice, type Dice } from '../../simulation/world/dice.ts'
import { isFor, type Shape } from '../handlers/draw.ts'
import { ENDS } from '../handlers/ends.ts'
import type { EndName, EventPlan, Plan, RunPlan, StepName, StepPlan } from '../handlers/plan.ts'
import { STEPS } from '../handlers/steps.ts'
import { DEATHS } from '../handlers/steps-deaths.ts'
import type { KillPlan } from './plan.ts'

/** The case of a seed. */
export function drawKills(seed: number): KillPlan {
  const dice = createDice(seed).apart('kills')
  const driver = dice.pick<Plan['driver']>(['pg', 'pg', 'kysely'])
  const mode = dice.pick<Plan['mode']>(['each', 'each', 'batch', 'batch', 'together'])
  const shape = { driver, mode } as const
  const count = dice.from(1, 6)
  // At least one event kills its process.
  const killer = dice.below(count)
  return {
    ...shape,
    leases: dice.pick<Plan['leases']>(['none', 'none', 'memory', 'postgres']),
    hasOwnPool: driver === 'pg' && dice.chance(0.5),
    concurrency: dice.from(1, 4),
    attempts: dice.pick([1, 2, 2, 3]),
    workers: 1,
    chunk: dice.pick([8, 8, 1, 2, 3]),
    isAtOnce: dice.chance(0.3),
    isFirstSuspect: dice.chance(0.4),
    isPrompt: dice.chance(0.4),
    events: Array.from({ length: count }, (_, at) => drawEvent(dice, shape, at === killer)),
  }
}

function drawEvent(dice: Dice, shape: Shape, isKiller: boolean): EventPlan {
  const isTroubled = isKiller || dice.chance(0.4)
  const runs = isTroubled ? dice.from(1, 2) : 0
  return {
    copies: dice.chance(0.1) ? 2 : 1,
    lane: dice.chance(0.3) ? dice.below(2) : undefined,
    runs: Array.from({ length: runs }, (_, at) => drawRun(dice, shape, isKiller && at === 0)),
    isForEver: isTroubled && dice.chance(0.35),
  }
}

function drawRun(dice: Dice, shape: Shape, isKiller: boolean): RunPlan {
  const ends = Object.keys(ENDS).filter((name) => isFor(ENDS[name]?.of, shape))
  const steps: StepPlan[] = Array.from({ length: dice.pick([0, 0, 1, 2]) }, () => ({
    step: dice.pick(ordinary(shape)),
    isCaught: dice.chance(0.8),
    after: dice.below(3),
  }))
  if (isKiller || dice.chance(0.5)) {
    const death = { step: drawDeath(dice, shape), isCaught: false, after: dice.below(3) }
    steps.splice(dice.below(steps.length + 1), 0, death)
  }
  return {
    steps,
    end: dice.chance(0.75) ? 'nothing' : dice.pick(ends as [EndName, ...EndName[]]),
  }
}

/**
 * Left out is what makes it uncertain what a dead run was allowed to do: the judge of the zoo looks at those. A lost
 * connection is no dead process, and what nobody awaits may be written down too late.
 */
const UNCERTAIN =
  /backend|deadline|past its lease|long statement|not seen|read only|cursor that is left open|not awaited|after the return/

function ordinary(shape: Shape): [StepName, ...StepName[]] {
  const names = Object.keys(STEPS).filter(
    (name) => isFor(STEPS[name]?.of, shape) && !UNCERTAIN.test(name),
  )
  return names as [StepName, ...StepName[]]
}

/** Kinds of deaths by their names, the more frequent ones twice. */
const KINDS = [
  /^dies: /,
  /^dies: /,
  /^dies: /,
  /^dies in a nested run/,
  /^dies beside a nested run/,
  /^dies when it is settled/,
  /^goes on while/,
  /^dies in the next turn/,
  /^dies some turns later/,
  /^dies \d+ ms later/,
] as const

function drawDeath(dice: Dice, { driver }: Shape): StepName {
  const kind = dice.pick<RegExp>(KINDS)
  const names = Object.keys(DEATHS).filter(
    (name) => kind.test(name) && (driver === 'pg' || DEATHS[name]?.of === 'mortal'),
  )
  return dice.pick(names as [StepName, ...StepName[]])
}
