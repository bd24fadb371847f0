import { fromRun } from './attempts-end.ts'
import { ofEnvironment, ofProcess } from './attempts-environment.ts'
import { park } from './attempts-park.ts'
import { eventsOf, isLocked } from './attempts-rows.ts'
import { beforeRun } from './attempts-run.ts'
import { settle } from './attempts-settle.ts'
import {
  type AttemptsState,
  type AttemptsWorld,
  collector,
  initial,
  isEnd,
} from './attempts-state.ts'
import type { Turn } from './attempts-turn.ts'
import type { Model, Step } from './explore.ts'

/**
 * Events from their delivery to their end: claims, counts, the transaction, verdicts, leases and the lock of a process.
 * One step is one call of a store or a broker; what happens inside of a process costs no step. Own short transactions
 * are one step; the business transaction is open over many, and holds its rows.
 */
export function attempts(world: AttemptsWorld): Model<AttemptsState> {
  return {
    initial: initial(world),
    next: (state) => {
      const steps: Step<AttemptsState>[] = []
      const add = collector(state, steps)
      ofEnvironment(state, world, add)
      for (const index of state.processes.keys()) {
        ofProcess(state, world, { add, index })
        for (const turn of turnsOf(state, world, { add, index })) takeTurn(turn)
      }
      return steps
    },
    violation: ({ wrong }) => wrong,
    isEnd: (state) => isEnd(state, world),
  }
}

function takeTurn(turn: Turn): void {
  switch (turn.fiber.at) {
    case 'settle':
      settle(turn)
      break
    case 'park':
    case 'park read':
    case 'park known':
      park(turn)
      break
    case 'run':
    case 'commit':
    case 'unknown':
    case 'fail':
    case 'bury':
    case 'defer':
    case 'release':
      fromRun(turn)
      break
    default:
      beforeRun(turn)
  }
}

function turnsOf(
  state: AttemptsState,
  world: AttemptsWorld,
  { add, index }: { readonly add: ReturnType<typeof collector>; readonly index: number },
): readonly Turn[] {
  const process = state.processes[index]
  if (process === undefined) return []
  return process.fibers.flatMap((fiber, slot): Turn[] => {
    if (fiber === null) return []
    const events = eventsOf(fiber)
    const isBlocked = events.some((event) => isLocked(state, event, fiber))
    const step: Turn['step'] = (label, change, isFault) =>
      add(
        `P${index}${process.fibers.length > 1 ? `.${slot}` : ''} ${label}`,
        (after) => {
          const mine = after.processes[index]
          const now = mine?.fibers[slot]
          if (mine !== undefined && now) change(after, now, mine)
        },
        isFault,
      )
    return [{ state, world, process, slot, fiber, events, isBlocked, step }]
  })
}
