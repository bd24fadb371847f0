import { type Choose, quiet } from '../world/scheduler.ts'
import { endAll } from './run.ts'
import type { SmallWorld } from './small-worlds.ts'
import { type Move, Walk } from './walk.ts'

export interface Explored {
  readonly name: string
  /** Different states that were reached. */
  readonly states: number
  /** Steps from a state to another. */
  readonly edges: number
  /** Runs of the world from its beginning, each to a state that is known or to an end. */
  readonly runs: number
  readonly ends: number
  readonly isComplete: boolean
  readonly violation: { readonly what: string; readonly trace: readonly string[] } | undefined
}

/** So many steps without a choice do not end. */
const LONGEST_PATH = 400

/** Tries everything that can happen in a small world, each state once. */
export async function explore(small: SmallWorld, mostRuns: number): Promise<Explored> {
  const known = new Set<string>()
  const path: { choice: number; readonly choices: number }[] = []
  const count = { edges: 0, runs: 0, ends: 0 }
  const explored = (isComplete: boolean, violation?: Explored['violation']): Explored => {
    return { name: small.name, states: known.size, ...count, isComplete, violation }
  }
  do {
    if (count.runs >= mostRuns) return explored(false)
    count.runs += 1
    const what = await walk(small, { known, path, count })
    if (what !== undefined) {
      return explored(false, { what, trace: await retrace(small, path) })
    }
    while (path.length > 0 && isExhausted(path.at(-1))) path.pop()
    const last = path.at(-1)
    if (last !== undefined) last.choice += 1
    await new Promise((resolve) => setImmediate(resolve))
  } while (path.length > 0)
  return explored(true)
}

interface Search {
  readonly known: Set<string>
  readonly path: { choice: number; readonly choices: number }[]
  readonly count: { edges: number; runs: number; ends: number }
}

/** Follows the path, then goes on to a state that is known or to an end; answers what was broken. */
async function walk(
  small: SmallWorld,
  { count, known, path }: Search,
): Promise<string | undefined> {
  const run = new Walk(small, false)
  const { audit } = run.world
  await quiet()
  for (const step of path) {
    await run.make((await branch(run))[step.choice] as Move)
  }
  if (path.length > 0) count.edges += 1
  for (;;) {
    const moves = await branch(run)
    if (audit.violation !== undefined) return audit.violation
    const key = run.key()
    if (known.has(key)) return undefined
    known.add(key)
    const [first] = moves
    if (first === undefined) {
      count.ends += 1
      return finish(run)
    }
    path.push({ choice: 0, choices: moves.length })
    await run.make(first)
    count.edges += 1
  }
}

/** Goes on as long as only one thing can happen; answers what can happen where there is a choice, or at the end. */
async function branch(run: Walk): Promise<readonly Move[]> {
  const { audit } = run.world
  for (let steps = 0; ; steps += 1) {
    const moves = run.moves()
    const [only] = moves
    if (moves.length !== 1 || only === undefined || audit.violation !== undefined) return moves
    if (steps > LONGEST_PATH) audit.violate('it does not end')
    await run.make(only)
  }
}

async function finish({ world }: Walk): Promise<string | undefined> {
  const inOrder: Choose = () => 0
  if (!world.isDone()) return 'nothing can go on, and not every event has ended'
  await endAll(world, inOrder)
  return world.audit.violation
}

async function retrace(small: SmallWorld, path: Search['path']): Promise<readonly string[]> {
  const run = new Walk(small, true)
  await quiet()
  for (const { choice } of path) {
    const move = (await branch(run))[choice]
    if (move !== undefined) await run.make(move)
  }
  await branch(run)
  return run.world.scheduler.trace ?? []
}

function isExhausted(step: Search['path'][number] | undefined): boolean {
  return step !== undefined && step.choice + 1 >= step.choices
}
