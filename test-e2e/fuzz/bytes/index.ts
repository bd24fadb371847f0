import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Fuzz } from '../fuzz.ts'
import { ruleOf, violationsOf } from './judge.ts'
import type { Case, Plan } from './plan.ts'
import { planOf } from './plan.ts'
import { play } from './play.ts'
import { openSetups, type Setups } from './setups.ts'

/** What a campaign may keep in memory after its first plan, however many follow, bytes. */
const GROWTH_BYTES = 96 * 2 ** 20

/** Bodies, keys, headers and envelopes of every kind, through the whole way of a delivery. */
export const bytesFuzz: Fuzz = {
  open: async () => {
    const setups = await openSetups()
    const tally: Record<string, number> = {}
    let firstBytes: number | undefined
    return {
      play: async (seed) => {
        const plan = planOf(seed)
        const history = await play(plan, setups.all())
        for (const { one, settled } of history.told)
          for (const name of [one.origin, settled[0] ?? '']) tally[name] = (tally[name] ?? 0) + 1
        const [violation] = violationsOf(history)
        if (violation !== undefined) return shrunk(plan, violation, setups)
        const bytes = heldBytes()
        firstBytes ??= bytes
        if (bytes - firstBytes < GROWTH_BYTES) return undefined
        return `memory is bounded: ${bytes - firstBytes} bytes more than after the first plan`
      },
      tally: () => tally,
      close: async () => setups[Symbol.asyncDispose](),
    }
  },
}

/** After a garbage collection. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** The smallest plan found that breaks the same rule. */
async function shrunk(plan: Plan, violation: string, setups: Setups): Promise<string> {
  let [smallest, told] = [plan, violation]
  const tryPlan = async (smaller: Plan): Promise<boolean> => {
    const found = violationsOf(await play(smaller, setups.all()))
    const same = found.find((each) => ruleOf(each) === ruleOf(violation))
    if (same !== undefined) [smallest, told] = [smaller, same]
    return same !== undefined
  }
  const alone = violation.match(/: (c\d+) over /)?.[1]
  const single = plan.cases.filter(({ name }) => name === alone)
  if (single.length === 1) await tryPlan({ ...plan, cases: single })
  for (const { name } of smallest.cases) {
    if (smallest.cases.length > 1)
      await tryPlan({ ...plan, cases: smallest.cases.filter((other) => other.name !== name) })
  }
  for (const one of smallest.cases) {
    for (const simpler of simplerOf(one))
      if (await tryPlan({ ...plan, cases: smallest.cases.map(replaced(one.name, simpler)) })) break
  }
  return `${told}\n${smallest.cases.map((one) => JSON.stringify(one)).join('\n')}`
}

const replaced =
  (name: string, by: Case) =>
  (other: Case): Case =>
    other.name === name ? by : other

function simplerOf(one: Case): readonly Case[] {
  const body = { ...one.body, size: 20 }
  return [
    { ...one, headers: [], body },
    { ...one, headers: [] },
    { ...one, body },
  ]
}
