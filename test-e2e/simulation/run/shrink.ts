import type { Plan } from '../faults/plan.ts'
import { runPlan } from './run.ts'

/** The plan with only these of its faults. */
export function withFaults(plan: Plan, kept: readonly number[]): Plan {
  return { ...plan, faults: plan.faults.filter((_, index) => kept.includes(index)) }
}

/** As few of the faults as still break a promise, by their number in the plan. */
export async function shrink(plan: Plan): Promise<readonly number[]> {
  let kept = plan.faults.map((_, index) => index)
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false
    for (const index of kept) {
      const fewer = kept.filter((other) => other !== index)
      const { violation } = await runPlan(withFaults(plan, fewer))
      if (violation === undefined) continue
      kept = fewer
      isSmaller = true
      break
    }
  }
  return kept
}
