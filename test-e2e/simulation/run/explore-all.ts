import { explore } from './explore.ts'
import { SMALL_WORLDS } from './small-worlds.ts'

/** Runs of one world at most in the long form: none should need them. */
const MOST_RUNS = 3_000_000

/** Tries the small worlds, all or the quick ones; prints what was reached, and answers the exit code. */
export async function exploreAll(options: {
  readonly quick: boolean
  readonly json: boolean
}): Promise<number> {
  Error.stackTraceLimit = 0
  let code = 0
  const worlds = SMALL_WORLDS.filter(({ isQuick }) => isQuick || !options.quick)
  for (const world of worlds) {
    const startedAt = performance.now()
    const { isComplete, violation, ...counts } = await explore(world, MOST_RUNS)
    const seconds = (performance.now() - startedAt) / 1_000
    if (options.json) console.log(JSON.stringify({ ...counts, isComplete, violation, seconds }))
    else {
      const { name, states, edges, ends } = counts
      const verdict = violation?.what ?? (isComplete ? 'every promise was kept' : 'not complete')
      console.log(
        `${name}: ${states} states, ${edges} edges, ${ends} ends, ${seconds.toFixed(1)} s: ${verdict}`,
      )
      if (violation !== undefined) console.log(violation.trace.join('\n'))
    }
    if (!isComplete) code = 1
  }
  return code
}
