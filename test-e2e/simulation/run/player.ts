import { runCallers } from '../callers/run.ts'
import { drawPlan } from '../faults/plan.ts'
import { type Played, runPlan } from './run.ts'

/** Plays the schedule of a seed: of clients of a route, or of messages of a broker. */
export function playerOf(
  isOfCallers: boolean,
): (seed: number, isTraced?: boolean) => Promise<Played> {
  return isOfCallers ? runCallers : (seed, isTraced) => runPlan(drawPlan(seed), isTraced)
}
