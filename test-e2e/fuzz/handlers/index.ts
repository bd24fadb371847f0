import type { Fuzz, OpenFuzz } from '../fuzz.ts'
import { drawPlan } from './draw.ts'
import { judge } from './judge.ts'
import type { Plan } from './plan.ts'
import { playPlan } from './play.ts'
import { shrinkPlan } from './shrink.ts'
import { openTestbed } from './testbed.ts'

/** Everything that a handler may do, over every driver. */
export const handlers: Fuzz = {
  open: async () => {
    const testbed = await openTestbed()
    const tally: Record<string, number> = {}
    const play = async (plan: Plan): Promise<string | undefined> =>
      judge(await playPlan(testbed, plan))
    return {
      play: async (seed) => {
        const plan = drawPlan(seed)
        count(tally, plan)
        const violation = await play(plan)
        if (violation === undefined) return undefined
        const smallest = await shrinkPlan(plan, violation, play)
        return `${smallest.violation}\n${JSON.stringify(smallest.plan)}`
      },
      tally: () => tally,
      close: () => testbed.close(),
    } satisfies OpenFuzz
  },
}

function count(tally: Record<string, number>, plan: Plan): void {
  const steps = plan.events.flatMap(({ runs }) =>
    runs.flatMap(({ steps, end }) => [...steps.map(({ step }) => `step ${step}`), `end ${end}`]),
  )
  const shape = [`driver ${plan.driver}`, `mode ${plan.mode}`, `leases ${plan.leases}`]
  if (plan.hasOwnPool) shape.push('own pool')
  for (const what of [...shape, ...steps]) tally[what] = (tally[what] ?? 0) + 1
}
