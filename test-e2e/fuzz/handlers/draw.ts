import { createDice, type Dice } from '../../simulation/world/dice.ts'
import { ENDS } from './ends.ts'
import type { EndName, EventPlan, Plan, RunPlan, StepName } from './plan.ts'
import type { Step } from './playing.ts'
import { STEPS } from './steps.ts'

/** The case of a seed. */
export function drawPlan(seed: number): Plan {
  const dice = createDice(seed).apart('handlers')
  const driver = dice.pick<Plan['driver']>(['pg', 'pg', 'kysely', 'kysely', 'memory'])
  const mode = dice.pick<Plan['mode']>(['each', 'each', 'batch', 'batch', 'together'])
  const isOneWorker = driver === 'memory' || dice.chance(0.8)
  const shape = { driver, mode } as const
  const plan = {
    ...shape,
    leases: dice.pick<Plan['leases']>([
      'none',
      'none',
      'memory',
      driver === 'memory' ? 'memory' : 'postgres',
    ]),
    concurrency: dice.from(1, 4),
    attempts: dice.from(1, 3),
    workers: isOneWorker ? 1 : 2,
    chunk: dice.from(1, 8),
    isAtOnce: dice.chance(0.4),
    events: Array.from({ length: dice.from(1, 8) }, () => drawEvent(dice, shape)),
  }
  // Drawn last: seeds from before them stay the same cases but for them.
  const hasOwnPool = driver === 'pg' && dice.chance(0.4)
  const isOnRedis = driver !== 'memory' && plan.leases !== 'none' && dice.chance(0.4)
  return { ...plan, hasOwnPool, leases: isOnRedis ? 'redis' : plan.leases }
}

export type Shape = Pick<Plan, 'driver' | 'mode'>

function drawEvent(dice: Dice, shape: Shape): EventPlan {
  // Half of the events are clean: they show whether their neighbours are left alone.
  const isTroubled = dice.chance(0.5)
  const runs = isTroubled ? dice.from(1, 2) : 0
  return {
    copies: dice.chance(0.15) ? 2 : 1,
    lane: dice.chance(0.3) ? dice.below(2) : undefined,
    runs: Array.from({ length: runs }, () => drawRun(dice, shape)),
    isForEver: isTroubled && dice.chance(0.3),
  }
}

function drawRun(dice: Dice, shape: Shape): RunPlan {
  const steps = Object.keys(STEPS).filter((name) => isFor(STEPS[name]?.of, shape))
  const ends = Object.keys(ENDS).filter((name) => isFor(ENDS[name]?.of, shape))
  const count = dice.pick([0, 1, 1, 1, 2, 3])
  return {
    steps: Array.from({ length: count }, () => ({
      step: dice.pick(steps as [StepName, ...StepName[]]),
      isCaught: dice.chance(0.5),
      after: dice.below(3),
    })),
    end: dice.chance(0.5) ? 'nothing' : dice.pick(ends as [EndName, ...EndName[]]),
  }
}

type Place = Step['of'] | 'single'

export function isFor(of: Place | undefined, { driver, mode }: Shape): boolean {
  switch (of) {
    case 'sql':
      return driver !== 'memory'
    case 'pg':
      return driver === 'pg'
    case 'apart':
      return driver !== 'memory' && mode === 'each'
    case 'pg apart':
      return driver === 'pg' && mode === 'each'
    case 'single':
      return mode !== 'together'
    default:
      return true
  }
}
