import type { Fuzz, OpenFuzz } from '../fuzz.ts'
import { judge } from './judge.ts'
import { Leaks } from './leaks.ts'
import { drawPlans, type Fixed, type Plan } from './plan.ts'
import { openLedger, playPlan } from './scenario.ts'
import { Servers } from './servers.ts'
import { shrink } from './shrink.ts'

/** Plans of one case, side by side: a hang is mostly waiting. */
const PLANS = 6

/** Hangs of one dependency under load, on every adapter and wrap. */
export const hangs: Fuzz = { open: () => openHangs(Array.from({ length: PLANS }, () => ({}))) }

/** @param fixed - One plan for each; what it does not say is drawn. */
export async function openHangs(fixed: readonly Fixed[]): Promise<OpenFuzz> {
  const servers = await Servers.start()
  const ledger = await openLedger(servers)
  const tally: Record<string, number> = {}
  const leaks = new Leaks()
  const playOne = async (plan: Plan): Promise<readonly string[]> => {
    for (const what of kindsOf(plan)) tally[what] = (tally[what] ?? 0) + 1
    return judge(await playPlan(servers, ledger, plan))
  }
  /** The smallest plan that breaks what this one broke beside the others. */
  const explain = async (plan: Plan, violations: readonly string[]): Promise<string> => {
    const breaks = async (smaller: Plan): Promise<boolean> => (await playOne(smaller)).length > 0
    const isAlone = await breaks(plan)
    const smallest = isAlone ? await shrink(plan, breaks) : plan
    const how = isAlone ? 'The smallest plan' : 'Only beside the other plans of its seed'
    return `${violations.join('\n')}\n${how}: ${JSON.stringify(smallest)}`
  }
  return {
    play: async (seed) => {
      const plans = drawPlans(seed, fixed)
      // The servers start once, and are no leak.
      await Promise.all(plans.map(({ adapter }) => servers.broker(adapter)))
      leaks.begin()
      const verdicts = await Promise.all(plans.map(playOne))
      const broken = [...(await leaks.found())]
      const broke = plans.filter((_, index) => verdicts[index]?.length)
      for (const plan of broke) {
        const violations = verdicts[plans.indexOf(plan)] ?? []
        // Each step of shrinking takes as long as a hang: one plan is enough to begin with.
        if (plan === broke[0]) broken.push(await explain(plan, violations))
        else broken.push(`${violations.join('\n')}\nThe plan: ${JSON.stringify(plan)}`)
      }
      return broken.length === 0 ? undefined : broken.join('\n')
    },
    tally: () => tally,
    close: async () => {
      leaks.close()
      await ledger.pool.end()
      await servers[Symbol.asyncDispose]()
    },
  }
}

const kindsOf = (plan: Plan): readonly string[] => [
  `${plan.adapter} ${plan.dependency}`,
  plan.isWrapped ? 'wrapped' : 'consumed',
  `${plan.connections}, then ${plan.arrivals}`,
  `direction ${plan.direction}`,
  plan.drains ? 'drained during the hang' : `ended by ${plan.ending}`,
]
