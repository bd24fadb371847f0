import type { Plan } from './plan.ts'

/** Simpler values, in the order in which they are tried. */
const SIMPLER: readonly Partial<Plan>[] = [
  { drains: false },
  { isWrapped: false },
  { flaky: 0 },
  { load: 5 },
  { takesMs: 0 },
  { fatal: 1 },
  { transaction: 'each' },
  { ending: 'release' },
  { direction: 'both' },
]

/** Takes from a plan what it does not need to break something. Each step plays a whole hang. */
export async function shrink(plan: Plan, breaks: (plan: Plan) => Promise<boolean>): Promise<Plan> {
  let smallest = plan
  for (const change of SIMPLER) {
    const smaller = { ...smallest, ...change }
    const isSame = JSON.stringify(smaller) === JSON.stringify(smallest)
    if (!isSame && (await breaks(smaller))) smallest = smaller
  }
  return smallest
}
