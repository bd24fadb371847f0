import type { Fuzz, OpenFuzz } from '../fuzz.ts'
import { shrinkPlan } from '../handlers/shrink.ts'
import { openStage } from '../handlers/stage.ts'
import { Children } from './children.ts'
import { drawKills } from './draw.ts'
import type { KillHistory } from './history.ts'
import { judgeKills } from './judge.ts'
import type { KillPlan } from './plan.ts'
import { playKills } from './play.ts'

/** A case takes seconds, and there is a process for each death. */
const MOST_PLAYS = 40

/** Handlers that kill their process. */
export const kills: Fuzz = {
  open: async () => {
    const stage = await openStage()
    const children = new Children()
    const tally: Record<string, number> = {}
    const play = async (plan: KillPlan): Promise<string | undefined> =>
      judgeKills(await playKills({ stage, children }, plan))
    return {
      play: async (seed) => {
        const plan = drawKills(seed)
        const history = await playKills({ stage, children }, plan)
        count(tally, history)
        const violation = judgeKills(history)
        if (violation === undefined) return undefined
        const smallest = await shrinkPlan(plan, violation, play, MOST_PLAYS)
        return `${smallest.violation}\n${JSON.stringify(smallest.plan)}`
      },
      tally: () => tally,
      close: async () => {
        await children.close()
        await stage.close()
      },
    } satisfies OpenFuzz
  },
}

function count(tally: Record<string, number>, { plan, processes, settled }: KillHistory): void {
  const shape = [`driver ${plan.driver}`, `mode ${plan.mode}`, `leases ${plan.leases}`]
  if (plan.hasOwnPool) shape.push('own pool')
  const deaths = processes.flatMap((each) => (each.isFinished ? [] : each.deaths.slice(-1)))
  const ways = deaths.map(({ way, isLate }) => `${isLate ? 'late death' : 'death'} by ${way}`)
  const ends = settled.flatMap(({ settlement }) =>
    settlement.kind === 'dead-letter' ? [`dead: ${settlement.reason}`] : [],
  )
  const times = [...processes.map(() => 'processes'), ...deaths.map(() => 'deaths')]
  for (const what of [...shape, ...ways, ...ends, ...times]) tally[what] = (tally[what] ?? 0) + 1
}
